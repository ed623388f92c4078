//! Named ways for a server to be odd or to fail, in every format that has them, and what a client must make of each.
//!
//! [`Scenario::all`] has them; [`crate::provider::ProviderServer::start_scenario`] plays one over a real socket, and
//! [`crate::conformance`] plays all of them to a client. Where a scenario says that an answer is whole, it is the same
//! answer in each: some reasoning, the text "Hello €" and one or two calls.

mod answers;
mod calls;
mod content;
mod endings;
mod expected;
mod framing;
mod own;
mod refusals;

use turnwright_core::ErrorKind;

pub(crate) use content::sign_reasoning;
pub use expected::{End, Expected, Wait};

use crate::provider::{Reply, WireFormat, draft::Draft, event::Mark};

/// A named scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    name: &'static str,
    shows: &'static str,
    formats: &'static [WireFormat],
    play: fn(WireFormat) -> Play,
}

/// What the server does, and what a client must make of it.
#[derive(Debug)]
struct Play {
    draft: Draft,
    expected: Expected,
}

impl Scenario {
    /// Every scenario, in groups: how bytes are framed, calls, what comes round the content, content, what single formats
    /// do, endings, refusals.
    pub const ALL: &'static [&'static [Self]] = &[
        framing::ALL,
        calls::ALL,
        answers::ALL,
        content::ALL,
        own::responses::ALL,
        own::messages::ALL,
        own::gemini::ALL,
        own::ollama::ALL,
        own::converse::ALL,
        endings::ALL,
        refusals::ALL,
    ];

    /// Every scenario.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        Self::ALL.iter().copied().flatten()
    }

    /// The scenario of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|scenario| scenario.name == name)
    }

    /// Its name: words joined by hyphens, no two the same.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it shows, in a few words.
    pub fn shows(&self) -> &'static str {
        self.shows
    }

    /// The formats it exists in.
    pub fn formats(&self) -> &'static [WireFormat] {
        self.formats
    }

    /// What a client must make of it; none where the format does not have it.
    pub fn expected(&self, format: WireFormat) -> Option<Expected> {
        self.exists_in(format).then(|| (self.play)(format).expected)
    }

    /// The answer of the server.
    pub(crate) fn draft(&self, format: WireFormat) -> Option<Draft> {
        self.exists_in(format).then(|| (self.play)(format).draft)
    }

    fn exists_in(&self, format: WireFormat) -> bool {
        self.formats.contains(&format)
    }
}

/// A scenario as the lists hold it.
const fn scenario(
    name: &'static str,
    shows: &'static str,
    formats: &'static [WireFormat],
    play: fn(WireFormat) -> Play,
) -> Scenario {
    Scenario { name, shows, formats, play }
}

const ALL: &[WireFormat] = &WireFormat::ALL;
const SSE: &[WireFormat] =
    &[WireFormat::Chat, WireFormat::Responses, WireFormat::Messages, WireFormat::Gemini];
/// Those that name their events.
const NAMED: &[WireFormat] = &[WireFormat::Responses, WireFormat::Messages];
/// Those made of text.
const TEXT: &[WireFormat] =
    &[WireFormat::Chat, WireFormat::Responses, WireFormat::Messages, WireFormat::Gemini, WireFormat::Ollama];
const CONVERSE: &[WireFormat] = &[WireFormat::Converse];
const CHAT: &[WireFormat] = &[WireFormat::Chat];
const RESPONSES: &[WireFormat] = &[WireFormat::Responses];
const MESSAGES: &[WireFormat] = &[WireFormat::Messages];
const GEMINI: &[WireFormat] = &[WireFormat::Gemini];
const OLLAMA: &[WireFormat] = &[WireFormat::Ollama];

/// The answer of most scenarios.
pub(crate) fn usual() -> Reply {
    let reply = Reply::new().reasoning("hm").text("Hel").text("lo €");
    reply.tool_call_in_fragments("c1", "weather", r#"{"city":"Rome"}"#, 5)
}

/// The same with a second call.
fn two() -> Reply {
    usual().tool_call_in_fragments("c2", "time", r#"{"zone":"UTC"}"#, 5)
}

/// Two calls, whole in one event each.
fn two_whole() -> Reply {
    let reply = Reply::new().reasoning("hm").text("Hel").text("lo €");
    reply.tool_call("c1", "weather", r#"{"city":"Rome"}"#).tool_call("c2", "time", r#"{"zone":"UTC"}"#)
}

impl Play {
    /// The usual answer, odd in this way and whole all the same.
    fn whole(format: WireFormat, edit: impl FnOnce(&mut Draft)) -> Self {
        Self::of(format, &usual(), Expected::usual(), edit)
    }

    /// The same with two calls.
    fn two(format: WireFormat, reply: &Reply, edit: impl FnOnce(&mut Draft)) -> Self {
        Self::of(format, reply, Expected::two(), edit)
    }

    fn of(format: WireFormat, reply: &Reply, expected: Expected, edit: impl FnOnce(&mut Draft)) -> Self {
        let mut draft = Draft::of(format, reply);
        edit(&mut draft);
        Self { draft, expected }
    }

    /// The usual answer up to its first text, then this.
    fn breaks(format: WireFormat, kinds: &'static [ErrorKind], edit: impl FnOnce(&mut Draft)) -> Self {
        let expected = Expected { text: Some("Hel"), reasoning: Some("hm"), ..Expected::failure(kinds) };
        Self::of(format, &usual(), expected, |draft| {
            draft.events.truncate(draft.find(Mark::Text) + 1);
            edit(draft);
        })
    }

    /// Nothing of an answer.
    fn refuses(draft: Draft, kinds: &'static [ErrorKind]) -> Self {
        Self { draft, expected: Expected::failure(kinds) }
    }

    /// The same, of which more is expected.
    fn expecting(mut self, more: impl FnOnce(&mut Expected)) -> Self {
        more(&mut self.expected);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_scenarios_have_one_name_and_each_is_of_some_format() {
        let mut names = HashSet::new();
        for scenario in Scenario::all() {
            assert!(names.insert(scenario.name()), "{}", scenario.name());
            assert!(!scenario.formats().is_empty() && !scenario.shows().is_empty(), "{}", scenario.name());
            assert!(
                scenario.name().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            );
            assert_eq!(Scenario::named(scenario.name()).map(Scenario::name), Some(scenario.name()));
        }
    }

    #[test]
    fn every_scenario_is_another_than_the_usual_answers() {
        for format in WireFormat::ALL {
            let usual = [usual(), two(), two_whole()].map(|reply| Draft::of(format, &reply).seen());
            for scenario in Scenario::all().filter(|scenario| scenario.exists_in(format)) {
                let draft = scenario.draft(format).unwrap().seen();
                // Formats that have CRLF, or whole calls, by themselves.
                let by_itself = match scenario.name() {
                    "crlf" => format == WireFormat::Gemini,
                    "lf" => format != WireFormat::Gemini,
                    "calls-whole" | "calls-in-fragments" => true,
                    // Those with one word for both.
                    "stop-though-calls" => {
                        matches!(format, WireFormat::Responses | WireFormat::Gemini | WireFormat::Ollama)
                    }
                    _ => false,
                };
                assert!(by_itself || !usual.contains(&draft), "{format}: {}", scenario.name());
            }
        }
    }
}
