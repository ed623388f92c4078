//! A chat completions server on the loopback interface that answers from a script, well or badly.
//!
//! For tests of clients and of whole agents over real sockets. Time is real here: a paused clock runs ahead while a
//! socket waits.
//!
//! ```
//! # use turnwright_testkit::provider::{Fault, ProviderServer, Reply};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = ProviderServer::start([
//!     Reply::new().tool_call("c1", "weather", r#"{"city":"Rome"}"#),
//!     Reply::new().text("It is ").text("sunny."),
//!     Reply::new().text("never whole").fault(Fault::AbruptClose { after: 2 }),
//! ])
//! .await?;
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! assert_eq!(server.requests().len(), 0);
//! # std::io::Result::Ok(())
//! # })?;
//! # std::io::Result::Ok(())
//! ```

mod fault;
mod render;
mod reply;
mod server;

pub use fault::Fault;
pub use reply::Reply;
pub use server::{ProviderServer, RecordedRequest};
