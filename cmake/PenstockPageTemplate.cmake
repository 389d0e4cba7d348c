# Two uses. Included: penstock_page_template(<target> <folder>) gives the target a source with the page's HTML, CSS and
# scripts as strings. Run as a script by that target's build (cmake -P): writes that source.
set(PENSTOCK_PAGE_SCRIPTS format.js charts.js timeline.js sections.js page.js)
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(penstock_page_template target folder)
    set(output ${PROJECT_BINARY_DIR}/generated/page_template.cpp)
    list(TRANSFORM PENSTOCK_PAGE_SCRIPTS PREPEND ${folder}/ OUTPUT_VARIABLE scripts)
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} -P ${PROJECT_SOURCE_DIR}/cmake/PenstockPageTemplate.cmake
      DEPENDS ${folder}/page.html ${folder}/page.css ${scripts} ${PROJECT_SOURCE_DIR}/cmake/PenstockPageTemplate.cmake
      VERBATIM)
    target_sources(${target} PRIVATE ${output})
  endfunction()
  return()
endif()

file(READ ${FOLDER}/page.html html)
file(READ ${FOLDER}/page.css css)
set(js "")
foreach(script ${PENSTOCK_PAGE_SCRIPTS})
  file(READ ${FOLDER}/${script} text)
  string(APPEND js "${text}")
endforeach()
set(made "// Made from trainer/run_report/template.\n#include \"trainer/run_report/template.h\"\n\nnamespace penstock::run_report {\n\n")
foreach(part html css js)
  if("${${part}}" MATCHES "\\)~~~\"")
    message(FATAL_ERROR "page template: ${part} has what ends a string of the generated source")
  endif()
  string(APPEND made "extern const std::string_view page_${part} = R\"~~~(${${part}})~~~\";\n\n")
endforeach()
file(WRITE ${OUTPUT} "${made}}  // namespace penstock::run_report\n")
