//! The clients, put through the conformance suite of the test kit; and the table of what they can do.

use std::time::Duration;

use turnwright_providers::{Chat, Format, Gemini, HttpClient, Messages, Ollama, Responses, Timeouts};
use turnwright_testkit::{
    conformance::{self, KEY},
    provider::WireFormat,
};

use crate::support::run_for;

fn client<F: Format>(base_url: &str) -> HttpClient<F> {
    let timeouts = Timeouts {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(2),
        idle: Duration::from_secs(1),
        total: Duration::from_secs(5),
        drain: Duration::from_millis(500),
    };
    HttpClient::builder().base_url(base_url).api_key(KEY).timeouts(timeouts).build().unwrap()
}

fn conforms<F: Format>(format: WireFormat) {
    let report = run_for(Duration::from_secs(60), conformance::run(format, client::<F>));
    assert!(report.is_pass(), "{report}");
    assert!(report.outcomes.len() > 80, "{report}");
}

#[test]
fn chat_conforms() {
    conforms::<Chat>(WireFormat::Chat);
}

#[test]
fn responses_conforms() {
    conforms::<Responses>(WireFormat::Responses);
}

#[test]
fn messages_conforms() {
    conforms::<Messages>(WireFormat::Messages);
}

#[test]
fn gemini_conforms() {
    conforms::<Gemini>(WireFormat::Gemini);
}

#[test]
fn ollama_conforms() {
    conforms::<Ollama>(WireFormat::Ollama);
}
