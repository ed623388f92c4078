//! Answers that are no stream: refusals, pages, redirects, other types.

use std::time::Duration;

use turnwright_core::ErrorKind;

use super::{ALL as EVERY, Play, Scenario, Wait, scenario, usual};
use crate::{
    conformance::KEY,
    provider::{
        WireFormat,
        draft::{Draft, Ending, HTML},
        trouble::Trouble,
    },
};

pub(super) const ALL: &[Scenario] = &[
    scenario("429-seconds", "too many requests; wait so many seconds", EVERY, |f| {
        let wait = Wait::For(Duration::from_secs(7));
        limited(f, Some(("retry-after", "7"))).expecting(|e| e.wait = Some(wait))
    }),
    scenario("429-milliseconds", "the same in milliseconds, which is more exact", EVERY, |f| {
        let wait = Wait::For(Duration::from_millis(1500));
        limited(f, Some(("retry-after-ms", "1500"))).expecting(|e| e.wait = Some(wait))
    }),
    scenario("429-date", "wait until a date", EVERY, |f| {
        let wait = Wait::AtLeast(Duration::from_secs(3600));
        limited(f, Some(("retry-after", "Wed, 21 Oct 2099 07:28:00 GMT"))).expecting(|e| e.wait = Some(wait))
    }),
    scenario("429-past-date", "wait until a date that is over", EVERY, |f| {
        let wait = Wait::For(Duration::ZERO);
        limited(f, Some(("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"))).expecting(|e| e.wait = Some(wait))
    }),
    scenario("429-bare", "too many requests, and no word of when", EVERY, |f| limited(f, None)),
    scenario("429-body-stalls", "the words of a refusal never come whole", EVERY, |f| {
        let play = limited(f, Some(("retry-after", "7")));
        let wait = Wait::For(Duration::from_secs(7));
        play.expecting(|e| (e.wait, e.closes) = (Some(wait), true)).editing(|d| d.ending = Ending::Stall)
    }),
    scenario("500", "the server failed", EVERY, |f| refused(f, Trouble::Server, &[ErrorKind::Server])),
    scenario("502-page", "a page of a proxy in place of an answer", EVERY, |f| {
        let draft = Draft { status: 502, ..Draft::of(f, &usual()) }.whole("text/html", HTML);
        Play::refuses(draft, &[ErrorKind::Server]).expecting(|e| e.status = Some(502))
    }),
    scenario("504-empty", "a status and nothing else", EVERY, |f| {
        let draft = Draft { status: 504, content_type: None, ..Draft::of(f, &usual()) };
        let draft = Draft { body: Some(Vec::new()), ..draft };
        Play::refuses(draft, &[ErrorKind::Server]).expecting(|e| e.status = Some(504))
    }),
    scenario("overloaded", "no capacity", EVERY, |f| {
        refused(f, Trouble::Overloaded, &[ErrorKind::Overloaded])
    }),
    scenario("wrong-key", "no such key", EVERY, |f| refused(f, Trouble::Key, &[ErrorKind::Authentication])),
    scenario("wrong-key-repeated", "the refusal repeats the key", EVERY, |f| {
        let body = Trouble::Key.body_saying(f, &format!("no such key: '{KEY}'.")).to_string();
        let draft = Draft::refusal(f, Trouble::Key).whole("application/json", body);
        Play::refuses(draft, &[ErrorKind::Authentication])
    }),
    scenario("forbidden", "a good key that may not do this", EVERY, |f| {
        refused(f, Trouble::Permission, &[ErrorKind::PermissionDenied])
    }),
    scenario("not-found", "no such model", EVERY, |f| refused(f, Trouble::NotFound, &[ErrorKind::NotFound])),
    scenario("invalid-request", "a request the server does not take", EVERY, |f| {
        refused(f, Trouble::Invalid, &[ErrorKind::InvalidRequest])
    }),
    scenario("context-overflow", "too large for the context; the numbers are kept", EVERY, |f| {
        refused(f, Trouble::Context, &[ErrorKind::ContextOverflow]).expecting(|e| {
            e.says = Some("9000");
            e.context = Some((9000, 8192));
        })
    }),
    scenario(
        "quota",
        "nothing left to spend",
        &[
            WireFormat::Chat,
            WireFormat::Responses,
            WireFormat::Messages,
            WireFormat::Ollama,
            WireFormat::Converse,
        ],
        |f| refused(f, Trouble::Quota, &[ErrorKind::QuotaExceeded]),
    ),
    scenario("refusal-in-words", "the body of a refusal is no JSON", EVERY, |f| {
        let draft =
            Draft { status: 400, ..Draft::of(f, &usual()) }.whole("text/plain", "bad things happened");
        Play::refuses(draft, &[ErrorKind::InvalidRequest]).expecting(|e| e.says = Some("bad things happened"))
    }),
    scenario("refusal-of-a-megabyte", "the body of a refusal is huge", EVERY, |f| {
        let draft = Draft { status: 500, ..Draft::of(f, &usual()) };
        Play::refuses(draft.whole("text/plain", "x".repeat(1 << 20)), &[ErrorKind::Server])
    }),
    scenario("200-page", "a page where an answer should be", EVERY, |f| {
        let draft = Draft::of(f, &usual()).whole("text/html; charset=utf-8", HTML);
        Play::refuses(draft, &[ErrorKind::UnexpectedContent])
    }),
    scenario("200-error", "status 200, and a JSON error", EVERY, |f| {
        let kinds: &[ErrorKind] = match f {
            // There is no status, and no label: words alone.
            WireFormat::Ollama | WireFormat::Converse => &[ErrorKind::Server, ErrorKind::Authentication],
            WireFormat::Gemini => &[ErrorKind::InvalidRequest, ErrorKind::Authentication],
            _ => &[ErrorKind::Authentication],
        };
        let draft = Draft { status: 200, ..Draft::refusal(f, Trouble::Key) };
        Play::refuses(draft, kinds).expecting(|e| e.says = Some("no such key"))
    }),
    scenario("redirect", "another address, which is not asked", EVERY, |f| {
        let mut draft = Draft { status: 307, ..Draft::of(f, &usual()) };
        draft.headers.push(("location", f.path().replace('*', "redirect")));
        Play::refuses(draft, &[ErrorKind::UnexpectedContent]).expecting(|e| e.status = Some(307))
    }),
    scenario("type-of-a-picture", "the type of a picture", EVERY, |f| {
        let draft = Draft { content_type: Some("image/png"), ..Draft::of(f, &usual()) };
        Play::refuses(draft, &[ErrorKind::UnexpectedContent])
    }),
    scenario("type-missing", "no type; the answer is good", EVERY, |f| {
        Play::whole(f, |d| d.content_type = None)
    }),
    scenario("type-plain", "the type of plain text; the answer is good", EVERY, |f| {
        Play::whole(f, |d| d.content_type = Some("text/plain"))
    }),
    scenario("type-json", "the type of JSON; the answer is good", EVERY, |f| {
        Play::whole(f, |d| d.content_type = Some("application/json"))
    }),
];

fn refused(format: WireFormat, trouble: Trouble, kinds: &'static [ErrorKind]) -> Play {
    let status = trouble.status(format);
    Play::refuses(Draft::refusal(format, trouble), kinds).expecting(|e| e.status = Some(status))
}

fn limited(format: WireFormat, header: Option<(&'static str, &str)>) -> Play {
    let play = refused(format, Trouble::RateLimited, &[ErrorKind::RateLimited]);
    play.editing(|d| d.headers.extend(header.map(|(name, value)| (name, value.to_owned()))))
}

impl Play {
    fn editing(mut self, edit: impl FnOnce(&mut Draft)) -> Self {
        edit(&mut self.draft);
        self
    }
}
