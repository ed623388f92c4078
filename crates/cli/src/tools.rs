//! What the agent can do: read files below one directory, and tell the time. Nothing here changes anything.

mod list_dir;
mod read_file;
mod search;
mod time;
mod walk;
mod workspace;

pub(crate) use list_dir::list_dir;
pub(crate) use read_file::read_file;
pub(crate) use search::search;
pub(crate) use time::current_time;
pub(crate) use workspace::Workspace;

/// The most bytes a tool returns. Less than what the runtime cuts a result to, so that our own words at its end stay.
const MOST_BYTES: usize = 40_000;

/// The text, cut between characters, and whether it was cut.
fn cut(text: &str, most: usize) -> (&str, bool) {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    (&text[..end], end < text.len())
}
