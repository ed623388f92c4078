//! What the agent can do: read and change files below one directory, run shell commands there, and tell the time.
//!
//! Arguments that a tool does not have are refused, by all of them alike: a misspelled option would else be an option
//! silently left out.

mod edit_file;
mod list_dir;
mod place;
mod read_file;
mod search;
#[cfg(unix)]
mod shell;
#[cfg(test)]
mod tests;
mod time;
mod walk;
mod workspace;
mod write_file;

pub(crate) use edit_file::edit_file;
pub(crate) use list_dir::list_dir;
pub(crate) use read_file::read_file;
pub(crate) use search::search;
#[cfg(unix)]
pub(crate) use shell::shell;
pub(crate) use time::current_time;
pub(crate) use workspace::Workspace;
pub(crate) use write_file::write_file;

/// All of them.
pub(crate) const NAMES: [&str; 7] =
    ["read_file", "list_dir", "search", "current_time", "write_file", "edit_file", "shell"];

/// The tools that change something. Each call of one waits for a person.
pub(crate) const GATED: [&str; 3] = ["write_file", "edit_file", "shell"];

/// Those of them that write a file they name, so that directories can be allowed.
pub(crate) const WRITES: [&str; 2] = ["write_file", "edit_file"];

/// The most bytes a tool returns. Less than what the runtime cuts a result to, so that our own words at its end stay.
const MOST_BYTES: usize = 40_000;

/// The text, cut between characters, and whether it was cut.
fn cut(text: &str, most: usize) -> (&str, bool) {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    (&text[..end], end < text.len())
}
