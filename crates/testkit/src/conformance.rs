//! What every model client must do, as a suite that any client can be put through, yours included.
//!
//! [`run`] plays every [`Scenario`] of a format to a client over real sockets and holds what the client makes of it to what
//! it must; and it checks the rest of the contract of [`LlmClient`]: one terminal event and nothing after it, connections
//! closed when the stream is dropped, no second request, no key in an error. [`capabilities`] finds out what a client can do.
//!
//! ```no_run
//! use turnwright_testkit::{conformance, provider::WireFormat};
//! # use turnwright_testkit::ScriptedModel as MyClient;
//! # fn my_client(_base_url: &str) -> MyClient { MyClient::new([]) }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let report = conformance::run(WireFormat::Chat, my_client).await;
//! assert!(report.is_pass(), "{report}");
//! # });
//! # std::io::Result::Ok(())
//! ```

mod capabilities;
mod contract;
mod fields;
mod hear;
mod report;

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, stream};
use turnwright_llm_stream::{LlmClient, LlmRequest};

pub use capabilities::{Capabilities, capabilities};
pub use report::{Outcome, Report};

use hear::{Heard, closed, hear, request};

use crate::{
    check::Verdict,
    provider::{ProviderServer, WireFormat},
    scenario::Scenario,
};

/// The key a client is to be made with: servers repeat it in errors, where it must not be seen.
pub const KEY: &str = "conformance-0123456789";

/// How many scenarios are played at once.
const AT_ONCE: usize = 48;

/// Puts a client through every scenario of a format, and through the rest of the contract.
///
/// `client` makes one for a base URL, with [`KEY`] as its key and with short limits, of which each must be longer than the
/// one before: half a second after the finish reason, one second of silence, two to the first byte, five in all. Longer
/// ones make the suite slow, and above twelve seconds make it fail. Needs a tokio runtime with IO and time, and real time;
/// takes about ten seconds.
///
/// # Cancel safety
/// Dropped, it stops; its servers end.
pub async fn run<C: LlmClient>(format: WireFormat, client: impl Fn(&str) -> C) -> Report {
    run_only(format, client, |_| true).await
}

/// The same with those scenarios and points of the contract alone whose names are picked: to look into one that fails.
///
/// # Cancel safety
/// As [`run`].
pub async fn run_only<C: LlmClient>(
    format: WireFormat,
    client: impl Fn(&str) -> C,
    pick: impl Fn(&str) -> bool,
) -> Report {
    let (client, pick) = (&client, &pick);
    let scenarios = Scenario::all().filter(|s| s.formats().contains(&format) && pick(s.name()));
    let mut outcomes = play(format, scenarios, client).await;
    outcomes.extend(contract::check(format, client, pick).await);
    Report { format, outcomes }
}

/// Plays scenarios to one client, many at once: each under the name of a model.
async fn play<C: LlmClient>(
    format: WireFormat,
    scenarios: impl Iterator<Item = &'static Scenario>,
    client: &impl Fn(&str) -> C,
) -> Vec<Outcome> {
    let (mut together, mut alone, mut all) = (HashMap::new(), HashMap::new(), Vec::new());
    for scenario in scenarios {
        if let Some(draft) = scenario.draft(format) {
            // Its connections are special.
            let answers = if draft.resets() { &mut alone } else { &mut together };
            answers.insert(scenario.name().to_owned(), draft);
            all.push(scenario);
        }
    }
    let start = async |answers| {
        let server = ProviderServer::start_by_model(format, answers).await.map_err(|e| e.to_string())?;
        let client = client(&server.base_url());
        Ok::<_, String>((server, client))
    };
    let names: HashSet<String> = alone.keys().cloned().collect();
    let (together, alone) = (start(together).await, start(alone).await);
    let played = all.into_iter().map(|scenario| {
        let asked = if names.contains(scenario.name()) { &alone } else { &together };
        async move {
            let verdict = match asked {
                Ok((server, client)) => hold(format, scenario, server, client).await,
                Err(why) => Err(why.clone()),
            };
            Outcome { name: scenario.name(), verdict }
        }
    });
    let played: Vec<_> = played.collect();
    stream::iter(played).buffered(AT_ONCE).collect().await
}

/// Holds a client to what it must make of a scenario.
async fn hold<C: LlmClient>(
    format: WireFormat,
    scenario: &Scenario,
    server: &ProviderServer,
    client: &C,
) -> Verdict {
    let name = scenario.name();
    let expected = scenario.expected(format).ok_or("the format does not have it")?;
    let request = LlmRequest { model: name.into(), ..request() };
    let Heard { response, .. } = hear(client, &request).await?;
    expected.check(&response)?;
    let asked = server.requests_for(name);
    if asked != 1 {
        return Err(format!("{asked} requests were made; a client makes one"));
    }
    if let Some(error) = response.error.filter(|error| format!("{error:?} {error}").contains(KEY)) {
        return Err(format!("the key is in the error: {}", error.message.replace(KEY, "[the key]")));
    }
    if expected.closes { closed(server, name).await } else { Ok(()) }
}
