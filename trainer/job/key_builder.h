#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainer/job/key.h"

namespace penstock {

class KeyCollector;

namespace key_detail {

template <class T>
struct Element {
  using type = T;
  static constexpr bool list = false;
  static constexpr bool optional = false;
};
template <class T>
struct Element<std::vector<T>> {
  using type = T;
  static constexpr bool list = true;
  static constexpr bool optional = false;
};
template <class T>
struct Element<std::optional<T>> {
  using type = T;
  static constexpr bool list = false;
  static constexpr bool optional = true;
};

using StringMap = std::map<std::string, std::string>;

template <class T>
constexpr KeyKind kind_of() {
  if constexpr (std::is_same_v<T, bool>)
    return KeyKind::boolean;
  else if constexpr (std::is_enum_v<T>)
    return KeyKind::choice;
  else if constexpr (std::is_integral_v<T>)
    return KeyKind::integer;
  else if constexpr (std::is_floating_point_v<T>)
    return KeyKind::number;
  else if constexpr (std::is_same_v<T, std::string>)
    return KeyKind::text;
  else if constexpr (std::is_same_v<T, StringMap>)
    return KeyKind::string_map;
  else
    return KeyKind::table;
}

std::vector<Key> fields_of(auto& object);

/// Tables, of a struct's fields.
TomlNode load_fields(const std::vector<Key>& fields);
void store_fields(const std::vector<Key>& fields, const TomlNode& node, const std::string& shorthand);
TomlNode load_map(const StringMap& map);
StringMap store_map(const TomlNode& node);

/// Between a member's element and a node. An enum needs `names`; a table may have a shorthand.
template <class T, class Names>
TomlNode load_element(const T& value, const Names& names) {
  if constexpr (std::is_enum_v<T>) {
    for (const auto& [name, each] : names) {
      if (each == value) return TomlNode::of(std::string(name));
    }
    return {};
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return TomlNode::of(value);
  } else if constexpr (std::is_integral_v<T>) {
    return TomlNode::of(static_cast<int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return TomlNode::of(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, StringMap>) {
    return load_map(value);
  } else {
    T copy = value;
    return load_fields(fields_of(copy));
  }
}

template <class T, class Names>
void store_element(T& value, const TomlNode& node, const Names& names, const std::string& shorthand) {
  if constexpr (std::is_enum_v<T>) {
    for (const auto& [name, each] : names) {
      if (name == node.text) value = each;
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    value = node.boolean;
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(node.integer);
  } else if constexpr (std::is_floating_point_v<T>) {
    value = node.kind == TomlNode::Kind::integer ? static_cast<T>(node.integer) : static_cast<T>(node.number);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = node.text;
  } else if constexpr (std::is_same_v<T, StringMap>) {
    value = store_map(node);
  } else {
    T fresh{};
    store_fields(fields_of(fresh), node, shorthand);
    value = std::move(fresh);
  }
}

struct NoNames {
  const std::pair<std::string_view, int>* begin() const { return nullptr; }
  const std::pair<std::string_view, int>* end() const { return nullptr; }
};

template <class Member, class Names>
TomlNode load_member(const Member& member, const Names& names) {
  if constexpr (Element<Member>::list) {
    TomlNode out = TomlNode::list_of({});
    for (const auto& item : member) out.list.push_back(load_element(item, names));
    return out;
  } else if constexpr (Element<Member>::optional) {
    return member ? load_element(*member, names) : TomlNode{};
  } else {
    return load_element(member, names);
  }
}

template <class Member, class Names>
void store_member(Member& member, const TomlNode& node, const Names& names, const std::string& shorthand) {
  if constexpr (Element<Member>::list) {
    member.clear();
    for (const TomlNode& item : node.list) {
      typename Element<Member>::type value{};
      store_element(value, item, names, shorthand);
      member.push_back(std::move(value));
    }
  } else if constexpr (Element<Member>::optional) {
    typename Element<Member>::type value{};
    store_element(value, node, names, shorthand);
    member = std::move(value);
  } else {
    store_element(member, node, names, shorthand);
  }
}

}  // namespace key_detail

/// What `v.key(name, member)` gives a section's describe(): each call refines the description; help() ends
/// it.
template <class Member>
class KeyBuilder {
  using Element = key_detail::Element<Member>;
  using Value = typename Element::type;

 public:
  KeyBuilder(KeyCollector& collector, const char* name, Member& member)
      : collector_(collector), member_(member) {
    key_.name = name;
    key_.kind = key_detail::kind_of<Value>();
    key_.list = Element::list;
    if (std::is_unsigned_v<Value> && key_.kind == KeyKind::integer) key_.lowest = 0;
    if constexpr (!std::is_enum_v<Value>) {
      key_.load = [&member] { return key_detail::load_member(member, key_detail::NoNames{}); };
      key_.store = [&member](const TomlNode& node) {
        key_detail::store_member(member, node, key_detail::NoNames{}, "");
      };
    }
    if constexpr (key_detail::kind_of<Value>() == KeyKind::table) {
      Value prototype{};  // only described: the fields' bindings are not used
      key_.fields = key_detail::fields_of(prototype);
      for (Key& field : key_.fields) field.default_note = penstock::default_text(field);
    }
  }

  KeyBuilder& required() { return key_.required = true, *this; }
  KeyBuilder& derived(const char* words) { return key_.derived = words, *this; }
  KeyBuilder& default_text(const char* words) { return key_.default_note = words, *this; }
  KeyBuilder& at_least(int64_t lowest) {
    key_.lowest = lowest;
    key_.low = static_cast<double>(lowest);
    return *this;
  }
  KeyBuilder& between(int64_t lowest, int64_t highest) {
    return at_least(lowest), key_.highest = highest, *this;
  }
  KeyBuilder& above(double low) { return key_.low = low, key_.low_open = true, *this; }
  KeyBuilder& at_most(double high) { return key_.high = high, *this; }
  /// Of a number: both ends belong to it.
  KeyBuilder& from_to(double low, double high) { return key_.low = low, key_.high = high, *this; }
  KeyBuilder& below(double high) { return key_.high = high, key_.high_open = true, *this; }
  KeyBuilder& even() { return key_.even = true, *this; }
  KeyBuilder& not_empty() { return key_.not_empty = true, *this; }
  KeyBuilder& path() { return key_.form = "path", *this; }
  KeyBuilder& file_name() { return key_.file_name = true, *this; }
  KeyBuilder& text_form(const char* form) { return key_.form = form, *this; }
  KeyBuilder& none_if_empty() { return key_.none_if_empty = true, *this; }
  KeyBuilder& clock_time() { return key_.clock_time = true, *this; }
  KeyBuilder& word(const char* word, double value) {
    return key_.word = word, key_.word_value = value, *this;
  }

  KeyBuilder& shorthand(const char* field) {
    key_.shorthand = field;
    key_.store = [&member = member_, field = std::string(field)](const TomlNode& node) {
      key_detail::store_member(member, node, key_detail::NoNames{}, field);
    };
    return *this;
  }

  template <class Names>
  KeyBuilder& one_of(const Names& names) {
    for (const auto& [name, value] : names) key_.choices.emplace_back(name);
    key_.load = [&member = member_, &names] { return key_detail::load_member(member, names); };
    key_.store = [&member = member_, &names](const TomlNode& node) {
      key_detail::store_member(member, node, names, "");
    };
    return *this;
  }

  /// The choice may also be a list of integers, kept in `list`; the choice is then `chosen`.
  KeyBuilder& or_list(std::vector<int64_t>& list, Member chosen, const char* form) {
    key_.list_form = form;
    key_.load = [load = key_.load, &member = member_, &list, chosen] {
      return member == chosen ? key_detail::load_member(list, key_detail::NoNames{}) : load();
    };
    key_.store = [store = key_.store, &member = member_, &list, chosen](const TomlNode& node) {
      list.clear();
      if (node.kind == TomlNode::Kind::list) {
        key_detail::store_member(list, node, key_detail::NoNames{}, "");
        member = chosen;
      } else {
        store(node);
      }
    };
    return *this;
  }

  void help(const char* text);

 private:
  KeyCollector& collector_;
  Member& member_;
  Key key_;
};

/// The visitor of describe(): turns a description into Keys.
class KeyCollector {
 public:
  template <class Member>
  KeyBuilder<Member> key(const char* name, Member& member) {
    return KeyBuilder<Member>(*this, name, member);
  }
  void add(Key key) { keys_.push_back(std::move(key)); }
  std::vector<Key> take() { return std::move(keys_); }

 private:
  std::vector<Key> keys_;
};

template <class Member>
void KeyBuilder<Member>::help(const char* text) {
  key_.help = text;
  collector_.add(std::move(key_));
}

std::vector<Key> key_detail::fields_of(auto& object) {
  KeyCollector collector;
  object.describe(collector);
  return collector.take();
}

}  // namespace penstock
