#pragma once

namespace penstock::commands {

/// For commands that have nothing to save (profile, eval, generate): INT, TERM, HUP and USR1 end the process
/// at once, with a line on standard error and ExitCode::interrupted, terminated (TERM, HUP), or stopped
/// (USR1: run again). USR2, which asks a run to save, is ignored. Until the process ends. Throws
/// std::system_error naming the signal if a handler cannot be installed.
void leave_on_signals();

}  // namespace penstock::commands
