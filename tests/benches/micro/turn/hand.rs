//! The turn by hand: what an engineer writes who needs this one loop, and writes it well. It keeps the answer, streams
//! it to a reader, runs the tools of an answer side by side, watches for silence, and can be cancelled.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, future::join_all};
use reqwest::{Client, Url};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{Lookup, QUESTION, SYSTEM, look_up};
use turnwright_react_runtime::tool::schema_of;

const IDLE: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
}
#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<CallDelta<'a>>,
}
#[derive(Deserialize)]
struct CallDelta<'a> {
    index: usize,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: FunctionDelta<'a>,
}
#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
}
#[derive(Deserialize, Clone, Copy, Default)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    tools: &'a RawValue,
    stream: bool,
    stream_options: StreamOptions,
}
#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message {
    System {
        content: &'static str,
    },
    User {
        content: String,
    },
    Assistant {
        content: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}
#[derive(Serialize, Clone, Default)]
struct Call {
    id: String,
    r#type: &'static str,
    function: Function,
}
#[derive(Serialize, Clone, Default)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Default)]
struct Answer {
    text: String,
    calls: Vec<Call>,
    finish: Option<String>,
    usage: Usage,
}

/// What the reader is sent.
enum Shown {
    Text(String),
    Arguments(String),
    Result(String),
    End(Usage),
}

pub(super) struct Loop {
    client: Client,
    url: Url,
    tools: Box<RawValue>,
}

impl Loop {
    pub(super) fn new(base_url: &str) -> Self {
        let client = Client::builder().connect_timeout(Duration::from_secs(10)).no_proxy().build().unwrap();
        let parameters: Value = schema_of::<Lookup>();
        let function = serde_json::json!({ "name": "lookup", "description": "Looks an entry up", "parameters": parameters });
        let tools = serde_json::json!([{ "type": "function", "function": function }]);
        let tools = serde_json::value::to_raw_value(&tools).unwrap();
        Self { client, url: format!("{base_url}/chat/completions").parse().unwrap(), tools }
    }

    /// One turn. Answers how much text was shown.
    pub(super) async fn turn(&self) -> usize {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let (_cancel, cancelled) = watch::channel(false);
        let reader = async {
            let mut shown = 0;
            while let Some(event) = rx.recv().await {
                match event {
                    Shown::Text(text) => shown += text.len(),
                    Shown::Arguments(text) | Shown::Result(text) => drop(text),
                    Shown::End(usage) => assert!(usage.prompt_tokens > usage.completion_tokens),
                }
            }
            shown
        };
        let work = async {
            self.work(&tx, cancelled).await;
            drop(tx);
        };
        futures::join!(work, reader).1
    }

    async fn work(&self, show: &mpsc::UnboundedSender<Shown>, mut cancelled: watch::Receiver<bool>) {
        let mut messages =
            vec![Message::System { content: SYSTEM }, Message::User { content: QUESTION.to_owned() }];
        let mut usage = Usage::default();
        for _ in 0..10 {
            let answer = tokio::select! {
                biased;
                _ = cancelled.wait_for(|c| *c) => return,
                answer = self.ask(&messages, show) => answer,
            };
            usage.prompt_tokens += answer.usage.prompt_tokens;
            usage.completion_tokens += answer.usage.completion_tokens;
            let calls = answer.calls.clone();
            messages.push(Message::Assistant { content: answer.text, tool_calls: answer.calls });
            if answer.finish.as_deref() == Some("stop") {
                let _ = show.send(Shown::End(usage));
                return;
            }
            let results = join_all(calls.into_iter().map(|call| async move {
                let content = match call.function.name.as_str() {
                    "lookup" => match serde_json::from_str::<Lookup>(&call.function.arguments) {
                        Ok(args) => look_up(&args.key),
                        Err(e) => format!("error: {e}"),
                    },
                    other => format!("error: there is no tool {other:?}"),
                };
                (call.id, content)
            }));
            for (tool_call_id, content) in results.await {
                let _ = show.send(Shown::Result(content.clone()));
                messages.push(Message::Tool { tool_call_id, content });
            }
        }
    }

    async fn ask(&self, messages: &[Message], show: &mpsc::UnboundedSender<Shown>) -> Answer {
        let body = Body {
            model: "gpt-4o-mini",
            messages,
            tools: &self.tools,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
        };
        let request = self
            .client
            .post(self.url.clone())
            .bearer_auth("none")
            .header("accept", "text/event-stream")
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body).unwrap());
        let response = timeout(IDLE, request.send()).await.unwrap().unwrap();
        assert!(response.status().is_success());
        read(response.bytes_stream(), show).await
    }
}

async fn read(
    mut body: impl Stream<Item = reqwest::Result<Bytes>> + Unpin,
    show: &mpsc::UnboundedSender<Shown>,
) -> Answer {
    let (mut buffer, mut answer) = (Vec::new(), Answer::default());
    while let Some(bytes) = timeout(IDLE, body.next()).await.unwrap() {
        buffer.extend_from_slice(&bytes.unwrap());
        let mut from = 0;
        while let Some(end) = memchr::memchr(b'\n', &buffer[from..]) {
            let line = &buffer[from..from + end];
            from += end + 1;
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            if data != b"[DONE]" {
                take(serde_json::from_slice(data).unwrap(), &mut answer, show);
            }
        }
        buffer.drain(..from);
    }
    answer
}

fn take(chunk: Chunk<'_>, answer: &mut Answer, show: &mpsc::UnboundedSender<Shown>) {
    answer.usage = chunk.usage.unwrap_or(answer.usage);
    let Some(choice) = chunk.choices.into_iter().next() else { return };
    if let Some(text) = choice.delta.content.filter(|text| !text.is_empty()) {
        answer.text.push_str(&text);
        let _ = show.send(Shown::Text(text.into_owned()));
    }
    for delta in choice.delta.tool_calls {
        if answer.calls.len() <= delta.index {
            answer.calls.resize(delta.index + 1, Call { r#type: "function", ..Call::default() });
        }
        let call = &mut answer.calls[delta.index];
        if let Some(id) = delta.id {
            call.id = id.into_owned();
        }
        if let Some(name) = delta.function.name {
            call.function.name = name.into_owned();
        }
        call.function.arguments.push_str(&delta.function.arguments);
        let _ = show.send(Shown::Arguments(delta.function.arguments.into_owned()));
    }
    if let Some(finish) = choice.finish_reason {
        answer.finish = Some(finish.into_owned());
    }
}
