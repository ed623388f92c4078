//! Exchanges written down, and replayed without a server.

mod replayed;
mod written;

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures::StreamExt;
use serde_json::Value;
use turnwright_llm_stream::{LlmClient, LlmRequest, StreamItem};
use turnwright_providers::{ChatClient, Replayer};
use turnwright_testkit::provider::Reply;

use crate::support::{context, request};

pub(crate) fn replaying(replayer: &Replayer) -> ChatClient {
    // Where nothing listens, and with other limits than were recorded.
    ChatClient::builder().base_url("http://127.0.0.1:9/v1").replay(replayer).build().unwrap()
}

pub(super) fn head(directory: &Path, number: u32) -> Value {
    serde_json::from_slice(&fs::read(directory.join(format!("{number:04}.json"))).unwrap()).unwrap()
}

pub(super) fn body(directory: &Path, number: u32) -> String {
    fs::read_to_string(directory.join(format!("{number:04}.body"))).unwrap()
}

pub(super) fn files(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) fn fresh() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    // It need not be there.
    let path = directory.path().join("a/b");
    (directory, path)
}

pub(super) fn reply() -> Reply {
    Reply::new().reasoning("hm").text("Hel").text("lo €").tool_call_in_fragments(
        "c1",
        "weather",
        r#"{"city":"Rome"}"#,
        5,
    )
}

pub(super) fn saying(text: &str) -> LlmRequest {
    let message = turnwright_core::Message::user(context().sources().id(), text);
    LlmRequest { messages: vec![std::sync::Arc::new(message)], ..request() }
}

pub(super) async fn items(client: &ChatClient, request: &LlmRequest) -> Vec<StreamItem> {
    client.stream(&context(), request).collect().await
}
