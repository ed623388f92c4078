//! The clients, put through the conformance suite of the test kit; and the table of what they can do.

use std::time::Duration;

use turnwright_providers::{
    Chat, Converse, Format, Gemini, HttpClient, Messages, Ollama, Responses, Timeouts,
};
use turnwright_testkit::{
    conformance::{self, Capabilities, KEY},
    provider::WireFormat,
    scenario::Scenario,
};

use crate::support::run_for;

pub(crate) fn client<F: Format>(base_url: &str) -> HttpClient<F> {
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
fn fault_e1_e2_e3_e5_e6_e7_e8_e10_e12_e15_e17_e21_e23_e24_e25_e27_e30_chat_conforms() {
    conforms::<Chat>(WireFormat::Chat);
}

#[test]
fn responses_conforms() {
    conforms::<Responses>(WireFormat::Responses);
}

#[test]
fn fault_e1_e2_e3_e5_e6_e17_e21_e23_e24_e25_e26_e27_e30_messages_conforms() {
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

#[test]
fn converse_conforms() {
    conforms::<Converse>(WireFormat::Converse);
}

/// Set to write the table anew in place of comparing it.
const UPDATE: &str = "TURNWRIGHT_UPDATE";

#[test]
fn the_table_of_formats_is_what_the_clients_do() {
    let columns = run_for(Duration::from_secs(60), async {
        let (chat, responses, messages, gemini, ollama, converse) = futures::join!(
            conformance::capabilities(WireFormat::Chat, client::<Chat>),
            conformance::capabilities(WireFormat::Responses, client::<Responses>),
            conformance::capabilities(WireFormat::Messages, client::<Messages>),
            conformance::capabilities(WireFormat::Gemini, client::<Gemini>),
            conformance::capabilities(WireFormat::Ollama, client::<Ollama>),
            conformance::capabilities(WireFormat::Converse, client::<Converse>),
        );
        [chat, responses, messages, gemini, ollama, converse].map(Result::unwrap)
    });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
    let page = std::fs::read_to_string(path).unwrap();
    let fresh = filled(&page, "capabilities", &Capabilities::table(&columns));
    let fresh = filled(&fresh, "scenarios", &scenarios());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, fresh).unwrap();
    } else {
        let fresh_lines = fresh.lines().filter(|line| !page.lines().any(|old| old == *line));
        let differ: Vec<_> = fresh_lines.collect();
        assert!(page == fresh, "docs/formats.md is stale: run this test with {UPDATE}=1\n{differ:#?}");
    }
}

/// Every scenario, a row each.
fn scenarios() -> String {
    let row = |scenario: &Scenario| {
        let formats: Vec<_> = scenario.formats().iter().map(|format| format.name()).collect();
        let formats = if formats.len() == WireFormat::ALL.len() { "all".into() } else { formats.join(", ") };
        format!("| `{}` | {} | {formats} |\n", scenario.name(), scenario.shows())
    };
    let rows: String = Scenario::all().map(row).collect();
    format!("| scenario | what it shows | formats |\n|---|---|---|\n{rows}")
}

/// The page with this between the marks of this name.
fn filled(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (head, rest) = page.split_once(&begin).unwrap();
    let (_, tail) = rest.split_once(&end).unwrap();
    format!("{head}{begin}\n{text}\n{end}{tail}")
}
