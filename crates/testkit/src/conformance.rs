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
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
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

use futures::{StreamExt, stream};
use turnwright_llm_stream::LlmClient;

pub use capabilities::{Capabilities, capabilities};
pub use report::{Outcome, Report};

use crate::{
    check::Verdict,
    provider::{ProviderServer, WireFormat},
    scenario::Scenario,
};
use hear::{Heard, closed, hear, request};

/// The key a client is to be made with: servers repeat it in errors, where it must not be seen.
pub const KEY: &str = "conformance-0123456789";

/// How many scenarios are played at once.
const AT_ONCE: usize = 24;

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
    let client = &client;
    let scenarios = Scenario::all().filter(|scenario| scenario.formats().contains(&format));
    let played = stream::iter(scenarios)
        .map(|scenario| async move {
            Outcome { name: scenario.name(), verdict: play(format, scenario, client).await }
        })
        .buffered(AT_ONCE);
    let mut outcomes: Vec<Outcome> = played.collect().await;
    outcomes.extend(contract::check(format, client).await);
    Report { format, outcomes }
}

/// Plays one scenario to a client.
async fn play<C: LlmClient>(format: WireFormat, scenario: &Scenario, client: &impl Fn(&str) -> C) -> Verdict {
    let server = ProviderServer::start_scenario(format, scenario).await.map_err(|e| e.to_string())?;
    let expected = scenario.expected(format).ok_or("the format does not have it")?;
    let Heard { response, .. } = hear(&client(&server.base_url()), &request()).await?;
    expected.check(&response)?;
    if server.request_count() != 1 {
        return Err(format!("{} requests were made; a client makes one", server.request_count()));
    }
    if let Some(error) = response.error.filter(|error| format!("{error:?} {error}").contains(KEY)) {
        return Err(format!("the key is in the error: {}", error.message.replace(KEY, "[the key]")));
    }
    if expected.closes { closed(&server).await } else { Ok(()) }
}
