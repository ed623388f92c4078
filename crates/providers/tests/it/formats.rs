//! The further formats, each asked for once over a socket: where the request goes, with what, and that its answer is
//! read in its own format; and that it replays.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwright_core::CancelToken;
use turnwright_llm_stream::{Assembler, EventStream, LlmClient, LlmRequest, LlmResponse};
use turnwright_providers::{Format, HttpClient, Recorder, Replayer};

use crate::support::{context, request, run, short};

/// Asks a server that answers with this body. Gives the first line and the headers of what it was sent, in lower case,
/// the body, and the answer.
async fn ask<F: Format>(path: &str, model: &str, body: &str) -> (String, Vec<u8>, LlmResponse) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}{path}", listener.local_addr().unwrap());
    let client = HttpClient::<F>::builder().base_url(base_url).api_key("key-0123456789").timeouts(short());
    let directory = tempfile::tempdir().unwrap();
    let client = client.record(&Recorder::open(directory.path()).unwrap()).build().unwrap();
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut sent = Vec::new();
        let (head, length) = loop {
            socket.read_buf(&mut sent).await.unwrap();
            let text = String::from_utf8_lossy(&sent).to_lowercase();
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                break (head.to_owned(), length.parse::<usize>().unwrap());
            }
        };
        while sent.len() < head.len() + 4 + length {
            socket.read_buf(&mut sent).await.unwrap();
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(answer.as_bytes()).await.unwrap();
        (head.clone(), sent.split_off(head.len() + 4))
    };
    let answered = async |client: &HttpClient<F>| {
        use futures::StreamExt;
        let request = LlmRequest { model: model.into(), ..request() };
        let stream = EventStream::provider(client.stream(&context(), &request), &CancelToken::new(), None);
        let feed = |mut assembler: Assembler, event| {
            assembler.feed(event);
            std::future::ready(assembler)
        };
        stream.fold(Assembler::new(), feed).await.finish()
    };
    let ((head, sent), response) = futures::join!(serve, answered(&client));
    let replaying = HttpClient::<F>::builder().replay(&Replayer::open(directory.path()).unwrap());
    assert_eq!(answered(&replaying.build().unwrap()).await, response);
    (head, sent, response)
}

#[test]
fn formats_say_how_an_answer_gets_its_form() {
    use turnwright_llm_stream::{ModelHandle, OutputWay};
    use turnwright_providers::{Chat, Gemini, Messages, Ollama, Responses};
    fn way<F: Format>() -> OutputWay {
        let client = HttpClient::<F>::builder().api_key("key-0123456789").build().unwrap();
        ModelHandle::new(client, "m").client().dyn_output_way(&request())
    }
    let ways = [way::<Chat>(), way::<Responses>(), way::<Gemini>(), way::<Ollama>()];
    assert_eq!(ways, [OutputWay::Native; 4]);
    assert_eq!(way::<Messages>(), OutputWay::OfferedTool, "nothing strict was asked for");
}

#[test]
fn responses_are_asked_for_and_read() {
    use turnwright_llm_stream::wire::responses::responses_body;
    use turnwright_providers::Responses;
    run(async {
        let body = include_str!("../../../../tests/recordings/smollm2/responses-plain.sse");
        let (head, sent, response) = ask::<Responses>("/v1", "m", body).await;
        assert!(head.starts_with("post /v1/responses http/1.1\r\n"), "{head}");
        assert!(head.contains("authorization: bearer key-0123456789"), "{head}");
        assert_eq!(sent, responses_body(&request()).unwrap());
        assert_eq!(response.error, None);
        assert!(response.text().starts_with("Hello! I'm here"), "{}", response.text());
    });
}

#[test]
fn messages_are_asked_for_and_read() {
    use turnwright_llm_stream::wire::messages::messages_body;
    use turnwright_providers::Messages;
    run(async {
        let body = include_str!("../../../../tests/recordings/smollm2/messages-plain.sse");
        for path in ["", "/v1"] {
            let (head, sent, response) = ask::<Messages>(path, "m", body).await;
            assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
            assert!(head.contains("x-api-key: key-0123456789"), "{head}");
            assert!(
                head.contains("anthropic-version: 2023-06-01") && !head.contains("authorization"),
                "{head}"
            );
            assert_eq!(sent, messages_body(&request()).unwrap());
            assert_eq!(response.error, None);
            assert!(response.text().starts_with("Hello!"), "{}", response.text());
        }
    });
}

#[test]
fn gemini_is_asked_for_and_read() {
    use turnwright_llm_stream::wire::gemini::gemini_body;
    use turnwright_providers::Gemini;
    let body = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hello\"}],\"role\":\"model\"},\
                \"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":1}}\r\n\r\n";
    run(async {
        for (path, model, expected) in [
            ("", "gemini-x", "/v1beta/models/gemini-x:streamgeneratecontent?alt=sse"),
            ("/v1beta", "models/gemini-x", "/v1beta/models/gemini-x:streamgeneratecontent?alt=sse"),
            (
                "/v1/publishers/google",
                "a b?c",
                "/v1/publishers/google/models/a%20b%3fc:streamgeneratecontent?alt=sse",
            ),
            (
                "/v1/locations/l",
                "publishers/google/models/gemini-x",
                "/v1/locations/l/publishers/google/models/gemini-x:streamgeneratecontent?alt=sse",
            ),
            ("", "tunedModels/mine", "/v1beta/tunedmodels/mine:streamgeneratecontent?alt=sse"),
        ] {
            let (head, sent, response) = ask::<Gemini>(path, model, body).await;
            assert!(head.starts_with(&format!("post {expected} http/1.1\r\n")), "{head}");
            assert!(
                head.contains("x-goog-api-key: key-0123456789") && !head.contains("authorization"),
                "{head}"
            );
            assert_eq!(sent, gemini_body(&request()).unwrap());
            assert_eq!((response.error.as_ref(), response.text().as_str()), (None, "Hello"));
        }
    });
}

#[test]
fn ollama_is_asked_for_and_read() {
    use turnwright_llm_stream::wire::ollama::ollama_body;
    use turnwright_providers::Ollama;
    let body = "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"done\":false}\n\
                {\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n";
    run(async {
        let (head, sent, response) = ask::<Ollama>("", "m", body).await;
        assert!(head.starts_with("post /api/chat http/1.1\r\n"), "{head}");
        assert!(head.contains("accept: application/x-ndjson"), "{head}");
        assert_eq!(sent, ollama_body(&request()).unwrap());
        assert_eq!((response.error.as_ref(), response.text().as_str()), (None, "Hello"));
    });
}
