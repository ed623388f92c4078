//! Every provider that can be named, asked over a socket in its own format: a call, its result, an answer.

use std::fs;

use serde_json::json;
use turnwright_testkit::provider::{ProviderServer, Reply, WireFormat};

use crate::support::{directory, events, run, stderr, stdout, text, turnwright};

#[test]
fn each_provider_is_asked_in_its_own_format_and_its_calls_are_run() {
    run(async {
        let root = directory();
        fs::write(root.join("a.txt"), "the word is walnut\n").unwrap();
        for (provider, format) in [
            ("openai", WireFormat::Chat),
            ("openai-responses", WireFormat::Responses),
            ("anthropic", WireFormat::Messages),
            ("gemini", WireFormat::Gemini),
            ("ollama", WireFormat::Ollama),
            ("bedrock", WireFormat::Converse),
        ] {
            let arguments = json!({ "path": "a.txt" }).to_string();
            let call = Reply::new().reasoning("hm").tool_call_in_fragments("c1", "read_file", arguments, 4);
            let script = [call.usage(20, 4), Reply::new().text("It is ").text("walnut.").usage(30, 6)];
            let server = ProviderServer::start_as(format, script).await.unwrap();
            let mut command = turnwright(&["run", "--json", "Which word?", "--provider", provider]);
            command.args(["--base-url", &server.base_url(), "--model", "m"]);
            let output = command.arg("--tool-root").arg(&root).output().await.unwrap();
            assert_eq!(output.status.code(), Some(0), "{provider}: {}", stderr(&output));
            let events = events(&stdout(&output));
            assert_eq!(text(&events), "It is walnut.", "{provider}");
            let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
            assert!(result["error"].is_null(), "{provider}: {result}");
            let end = events.last().unwrap();
            assert_eq!(end["usage"]["input_tokens"], 50, "{provider}: {end}");
            assert_eq!(end["usage"]["output_tokens"], 10, "{provider}: {end}");
            // Two requests, and the second one has what the tool found.
            let requests = server.requests();
            assert_eq!((requests.len(), requests[1].model.as_str()), (2, "m"), "{provider}");
            assert!(requests[1].json().to_string().contains("the word is walnut"), "{provider}");
        }
    });
}
