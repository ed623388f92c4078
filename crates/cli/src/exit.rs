//! Exit codes.

use turnwright::Outcome;

/// The turn failed, or what it came to could not be shown.
pub(crate) const FAILED: u8 = 1;
/// A mistake of usage or configuration. `clap` exits with the same.
pub(crate) const USAGE: u8 = 2;
/// A recorded body that is truncated.
pub(crate) const TRUNCATED: u8 = 5;
/// Cancelled; what shells say of a program that Ctrl-C ended.
pub(crate) const CANCELLED: u8 = 130;

/// As `--help` shows them.
pub(crate) const HELP: &str = "\
Exit codes:
  0    the turn completed
  1    it failed, or its output or recording could not be written; `doctor` found a problem, `store check` a
       fault; what `ctl` sent did not take effect
  2    usage or configuration; nothing was run
  3    it is suspended or drained
  4    it reached a limit or its deadline, or repeats itself
  5    what `decode` read is truncated
  130  it was cancelled, or whoever read its output went away
`chat` exits with 0 on a terminal, and in a pipe with the code of its last turn";

/// The code of a leg that ended so.
pub(crate) fn code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Completed => 0,
        Outcome::Failed => FAILED,
        Outcome::Suspended | Outcome::Drained => 3,
        Outcome::TimedOut | Outcome::LimitReached | Outcome::LoopDetected => 4,
        Outcome::Cancelled => CANCELLED,
    }
}
