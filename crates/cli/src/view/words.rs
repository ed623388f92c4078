//! Words and numbers for people.

use std::{borrow::Cow, time::Duration};

use turnwright::{
    Agent, ErrorKind, Outcome, TokenUsage, TurnFinished,
    llm_stream::prices::{Price, Prices},
};

use crate::output::{Look, error_lines, style};

/// Text of models and tools for a terminal: whatever would steer it is spelled out.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| steers(c) && c != '\n' && c != '\t';
    if text.contains(steers) { Cow::Owned(escape(&text.replace("\r\n", "\n"), steers)) } else { text.into() }
}

/// A name on one line: line breaks and tabs are spelled out too.
pub(crate) fn spelled(name: &str) -> Cow<'_, str> {
    if name.contains(steers) { Cow::Owned(escape(name, steers)) } else { name.into() }
}

/// Text somebody decides about, on one line: what cannot be seen is spelled out as well, and so is white space that is
/// no plain space. Text to read keeps it: scripts and emoji need it.
pub(crate) fn exposed(text: &str) -> Cow<'_, str> {
    let hides = |c: char| steers(c) && c != '\t' || is_unseen(c);
    if text.contains(hides) { Cow::Owned(escape(text, hides)) } else { text.into() }
}

/// White space but for that of the keyboard, and what Unicode has no picture for (`Default_Ignorable_Code_Point`, marks of
/// annotations, the empty Braille pattern).
fn is_unseen(c: char) -> bool {
    let has_no_picture = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    has_no_picture || c.is_whitespace() && !matches!(c, ' ' | '\t' | '\n')
}

/// Whether a character is none to see: it controls the terminal, breaks the line, or turns the direction of what follows.
fn steers(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

fn escape(text: &str, steers: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// The text on one line of at most so many characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let word = printable(word);
        let space = usize::from(!line.is_empty());
        if length + space + word.chars().count() > most {
            let room = most.saturating_sub(length + space + 1);
            line.extend([" "].iter().take(space).copied());
            line.extend(word.chars().take(room));
            line.push('…');
            return line;
        }
        line.extend([" "].iter().take(space).copied());
        line.push_str(&word);
        length += space + word.chars().count();
    }
    line
}

/// `1 call`, `2 calls`.
pub(crate) fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// How long something took.
pub(crate) fn seconds(took: Duration) -> String {
    match took.as_secs_f64() {
        s if s < 0.001 => format!("{:.1} ms", s * 1000.0),
        s if s < 0.9995 => format!("{:.0} ms", s * 1000.0),
        s => format!("{s:.1} s"),
    }
}

/// Tokens of a turn.
pub(crate) fn tokens(usage: &TokenUsage) -> String {
    let number = |n: Option<u64>| n.map_or_else(|| "?".into(), |n| n.to_string());
    if usage.is_unknown() {
        return "tokens unknown".into();
    }
    let partial = if usage.partial { " (at least)" } else { "" };
    format!("{} tokens in, {} out{partial}", number(usage.input_tokens), number(usage.output_tokens))
}

/// Dollars, with two digits that count.
pub(crate) fn money(dollars: f64) -> String {
    let digits = if dollars > 0.0 { (1.0 - dollars.log10().floor()).clamp(2.0, 8.0) as usize } else { 2 };
    format!("${dollars:.digits$}")
}

/// What the tokens of an agent's model cost, by the table that comes along.
pub(crate) fn price_of(agent: &Agent) -> Option<Price> {
    let model = agent.plan().model;
    let (provider, model) = model.split_once('/')?;
    Prices::built_in().of(provider, model).copied()
}

/// Why a leg did not complete; nothing when it did.
pub(crate) fn ending(finished: &TurnFinished, look: Look) -> String {
    let error = finished.error.as_ref();
    let words = |otherwise: &str| error.map_or_else(|| otherwise.into(), |e| e.message.clone());
    let message = match finished.outcome {
        Outcome::Completed => return String::new(),
        Outcome::Failed => words("the turn failed"),
        Outcome::TimedOut => words("the turn's deadline passed"),
        Outcome::LimitReached => words("the turn reached a limit"),
        Outcome::LoopDetected => words("the turn repeats itself"),
        Outcome::Cancelled => {
            let cause = finished.cancelled_by.as_ref();
            let cause = cause.map_or_else(|| "cancelled".into(), ToString::to_string);
            return format!("{}\n", look.paint(style::WARNING, &printable(&cause)));
        }
        Outcome::Suspended => {
            let n = counted(finished.pending.len() as u64, "decision");
            return format!("{} the turn waits for {n}\n", look.paint(style::WARNING, "suspended:"));
        }
        Outcome::Drained => {
            return format!("{} the turn can be resumed\n", look.paint(style::WARNING, "drained:"));
        }
    };
    let kind = error.and_then(|e| serde_json::from_value(e.kind.as_str().into()).ok());
    let hint = kind.and_then(hint).or_else(|| match finished.outcome {
        Outcome::LimitReached => hint(ErrorKind::LimitReached),
        Outcome::TimedOut => hint(ErrorKind::DeadlineExceeded),
        _ => None,
    });
    error_lines(look, &printable(&message), hint)
}

/// What a person can do about it.
fn hint(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Authentication => "check the key; `turnwright doctor` says which is used",
        ErrorKind::PermissionDenied => "the key may not use this model: check --model",
        ErrorKind::QuotaExceeded => "the account has no quota left",
        ErrorKind::RateLimited | ErrorKind::Overloaded | ErrorKind::Server => "try again in a while",
        ErrorKind::NotFound => "check --model and --base-url",
        ErrorKind::Connection | ErrorKind::ConnectTimeout => {
            "is a server running there? check --base-url; `turnwright doctor` says which is asked"
        }
        ErrorKind::UnexpectedContent => "this is no server of that kind: check --provider and --base-url",
        ErrorKind::FirstByteTimeout => "a slow server needs a longer --timeout-first-byte",
        ErrorKind::IdleTimeout => "a slow server needs a longer --timeout-idle",
        ErrorKind::TotalTimeout => "a slow server needs a longer --timeout-total",
        ErrorKind::ContextOverflow => "ask for less, or use a model with a larger context",
        ErrorKind::LimitReached => "--max-iterations allows more",
        ErrorKind::DeadlineExceeded => "--deadline allows more",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sums_keep_two_digits() {
        for (dollars, text) in [
            (0.0, "$0.00"),
            (12.5, "$12.50"),
            (0.25, "$0.25"),
            (0.001_234, "$0.0012"),
            (1e-12, "$0.00000000"),
        ] {
            assert_eq!(money(dollars), text);
        }
    }

    #[test]
    fn text_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\r\nc\td\u{9b}"), "a\\u{1b}[31mb\nc\td\\u{9b}");
        assert!(matches!(printable("plain\nText"), Cow::Borrowed(_)));
        for c in "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}".chars() {
            assert_eq!(printable(&format!("a{c}b")), format!("a{}b", c.escape_unicode()));
        }
        assert_eq!(spelled("a\nb\u{202e}\tc"), "a\\nb\\u{202e}\\tc");
        assert!(matches!(spelled("plain Ünïcode"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_somebody_decides_about_hides_nothing() {
        let hidden = "\r\u{ad}\u{34f}\u{61c}\u{a0}\u{2009}\u{200b}\u{200d}\u{202e}\u{2060}\u{2800}\u{3000}\u{3164}\u{fe0f}\u{feff}\u{e0041}";
        for c in hidden.chars() {
            assert_eq!(exposed(&format!("a{c}b")), format!("a{}b", c.escape_default()));
        }
        assert!(matches!(exposed("rm\t-r  zwö e\u{301}"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_are_cut_between_characters() {
        assert_eq!(one_line("  a\n b\t c ", 10), "a b c");
        assert_eq!(one_line("éééééééééé", 4), "ééé…");
        assert_eq!(one_line("ab cd", 4), "ab …");
        assert_eq!(one_line("", 4), "");
    }

    #[test]
    fn numbers_have_their_words() {
        assert_eq!((counted(1, "call"), counted(0, "call")), ("1 call".into(), "0 calls".into()));
        assert_eq!(seconds(Duration::from_micros(400)), "0.4 ms");
        assert_eq!(seconds(Duration::from_millis(12)), "12 ms");
        assert_eq!(seconds(Duration::from_millis(1500)), "1.5 s");
        assert_eq!(tokens(&TokenUsage::UNKNOWN), "tokens unknown");
    }
}
