//! HTTP clients for the wire formats of model providers.
//!
//! - [`HttpClient`]: the client, one type a [`Format`]. [`ChatClient`] speaks chat completions, as OpenAI and the many
//!   servers compatible with it do; [`ResponsesClient`], [`MessagesClient`], [`GeminiClient`] and [`OllamaClient`] speak
//!   what they are named after, and [`ConverseClient`] that of Bedrock.
//! - [`Timeouts`]: how long a client waits for what.
//! - [`Recorder`] and [`Replayer`]: exchanges written down, and answered from there without a network; [`Recording`]
//!   is one of them.
//!
//! A client only speaks HTTP: what the bytes mean is decided by the decoders of [`turnwright_llm_stream::wire`].
//! It never retries, never follows a redirect, and its keys are in no log, error or debug output. Dropping its stream
//! closes the connection.
//!
//! ```no_run
//! use turnwright_llm_stream::ModelHandle;
//! use turnwright_providers::ChatClient;
//!
//! let client = ChatClient::builder().base_url("http://127.0.0.1:8080/v1").build()?;
//! let model = ModelHandle::new(client, "qwen3");
//! # Ok::<(), turnwright_core::ErrorInfo>(())
//! ```

mod base_url;
mod client;
mod exchange;
mod format;
mod key;
mod limits;
mod reading;
mod recording;
mod setup;
mod signing;
#[cfg(feature = "sigv4")]
mod sigv4;
mod timeouts;
mod transport;
mod verdict;

pub use client::{HttpClient, HttpClientBuilder};
pub use format::{
    Chat, ChatClient, Converse, ConverseClient, Format, Gemini, GeminiClient, Messages, MessagesClient,
    Ollama, OllamaClient, Responses, ResponsesClient,
};
pub use recording::{Recorder, Recording, Replayer};
#[cfg(feature = "sigv4")]
pub use sigv4::AwsCredentials;
pub use timeouts::Timeouts;
