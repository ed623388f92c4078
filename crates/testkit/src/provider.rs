//! A server of any wire format on the loopback interface that answers from a script, well or badly.
//!
//! For tests of clients and of whole agents over real sockets. Time is real here: a paused clock runs ahead while a
//! socket waits.
//!
//! ```
//! # use turnwright_testkit::provider::{Fault, ProviderServer, Reply, WireFormat};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = ProviderServer::start([
//!     Reply::new().tool_call("c1", "weather", r#"{"city":"Rome"}"#),
//!     Reply::new().text("It is ").text("sunny."),
//!     Reply::new().text("never whole").fault(Fault::AbruptClose { after: 2 }),
//! ])
//! .await?;
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! assert_eq!(server.requests().len(), 0);
//! // The same in another format.
//! let server = ProviderServer::start_as(WireFormat::Messages, [Reply::new().text("Hello")]).await?;
//! assert_eq!(server.format().name(), "messages");
//! # std::io::Result::Ok(())
//! # })?;
//! # std::io::Result::Ok(())
//! ```

pub(crate) mod draft;
pub(crate) mod event;
mod fault;
mod format;
pub(crate) mod framing;
pub(crate) mod render;
mod reply;
mod serve;
mod server;
mod state;
pub(crate) mod trouble;

pub use fault::Fault;
pub use format::WireFormat;
pub use reply::Reply;
pub use server::ProviderServer;
pub use state::RecordedRequest;
