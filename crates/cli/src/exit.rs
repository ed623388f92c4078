//! Exit codes.

use turnwright::Outcome;

/// A mistake of usage or configuration. `clap` exits with the same.
pub(crate) const USAGE: u8 = 2;
/// Cancelled; what shells say of a program that Ctrl-C ended.
pub(crate) const CANCELLED: u8 = 130;

/// As `--help` shows them.
pub(crate) const HELP: &str = "\
Exit codes:
  0    the turn completed
  1    it failed
  2    usage or configuration; nothing was run
  3    it is suspended or drained
  4    it reached a limit or its deadline, or repeats itself
  130  it was cancelled";

/// The code of a leg that ended so.
pub(crate) fn code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Completed => 0,
        Outcome::Failed => 1,
        Outcome::Suspended | Outcome::Drained => 3,
        Outcome::TimedOut | Outcome::LimitReached | Outcome::LoopDetected => 4,
        Outcome::Cancelled => CANCELLED,
    }
}
