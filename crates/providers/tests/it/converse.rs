//! Bedrock over a socket: where the request goes, how it is signed, and that frames come through it.

use std::{fs, io::Write, path::Path};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwright_core::{CancelToken, ErrorKind, RetryAdvice};
use turnwright_llm_stream::{
    EventStream, FinishReason, LlmClient, LlmRequest, LlmResponse, ModelHandle, OutputWay,
    wire::converse::converse_body,
};
use turnwright_providers::{Converse, ConverseClient, HttpClientBuilder, Recorder, Replayer};
use turnwright_testkit::eventstream::{event, exception};

use crate::support::{collect, context, request, run, short};

const MODEL: &str = "us.amazon.nova-2-lite-v1:0";

struct Exchange {
    /// The first line and the headers that were sent.
    head: String,
    body: Vec<u8>,
    response: LlmResponse,
}

fn asked() -> LlmRequest {
    LlmRequest { model: MODEL.into(), ..request() }
}

fn with_key(builder: HttpClientBuilder<Converse>) -> HttpClientBuilder<Converse> {
    builder.api_key("key-0123456789")
}

/// Asks a server that gives this answer in pieces of so many bytes.
async fn ask(
    set_up: impl FnOnce(HttpClientBuilder<Converse>) -> HttpClientBuilder<Converse>,
    head_of_answer: &str,
    body: &[u8],
    size: usize,
) -> Exchange {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let client = set_up(ConverseClient::builder().base_url(base_url)).timeouts(short());
    let client = client.record(&Recorder::open(directory.path()).unwrap()).build().unwrap();
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut sent = Vec::new();
        let head_end = loop {
            socket.read_buf(&mut sent).await.unwrap();
            if let Some(at) = sent.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at;
            }
        };
        let sent_head = String::from_utf8(sent[..head_end].to_vec()).unwrap();
        let length = sent_head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.parse().unwrap();
        while sent.len() < head_end + 4 + length {
            socket.read_buf(&mut sent).await.unwrap();
        }
        socket
            .write_all(format!("HTTP/1.1 {head_of_answer}content-length: {}\r\n\r\n", body.len()).as_bytes())
            .await
            .unwrap();
        for piece in body.chunks(size) {
            socket.write_all(piece).await.unwrap();
            socket.flush().await.unwrap();
            tokio::task::yield_now().await;
        }
        (sent_head, sent.split_off(head_end + 4))
    };
    let answered = async |client: ConverseClient| {
        let stream = client.stream(&context(), &asked());
        collect(EventStream::provider(stream, &CancelToken::new(), None)).await
    };
    let ((head, sent), response) = futures::join!(serve, answered(client));
    // Played again it needs no region, no key and no signature.
    let client = ConverseClient::builder().replay(&Replayer::open(directory.path()).unwrap());
    let replayed = answered(client.build().unwrap()).await;
    if String::from_utf8_lossy(body).contains("key-0123456789") && head_of_answer.starts_with("200") {
        // Where asterisks stand for a key the checksum is no longer right.
        assert_eq!(replayed.error.unwrap().kind, ErrorKind::Decode);
    } else if response.error.as_ref().is_some_and(|error| error.message.contains("[redacted]")) {
        // A secret is asterisks in the recording already.
        let kind =
            |response: &LlmResponse| response.error.as_ref().map(|error| (error.kind, error.code.clone()));
        assert_eq!(kind(&replayed), kind(&response));
    } else {
        assert_eq!(replayed, response);
    }
    Exchange { head, body: sent, response }
}

fn text(text: &str) -> Vec<u8> {
    event("contentBlockDelta", &json!({ "contentBlockIndex": 0, "delta": { "text": text } }).to_string())
}

const GOOD: &str = "200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n";

#[test]
fn the_model_is_in_the_path_and_frames_are_read_as_they_come() {
    run(async {
        let end = [event("messageStop", r#"{"stopReason":"end_turn"}"#), event("metadata", "{}")];
        let body = [text("Hel"), text("lo €"), end.concat()].concat();
        let Exchange { head, body, response } = ask(with_key, GOOD, &body, 11).await;
        assert!(
            head.starts_with("POST /model/us.amazon.nova-2-lite-v1%3A0/converse-stream HTTP/1.1\r\n"),
            "{head}"
        );
        for line in [
            "authorization: Bearer key-0123456789",
            "accept: application/vnd.amazon.eventstream",
            "content-type: application/json",
        ] {
            assert!(head.lines().any(|sent| sent == line), "{head}");
        }
        assert_eq!(body, converse_body(&asked()).unwrap());
        assert_eq!((response.error.as_ref(), response.text().as_str()), (None, "Hello €"));
        assert_eq!(response.finish_reason, Some(FinishReason::Stop));
    });
}

#[test]
fn fault_d1_e21_what_breaks_in_the_stream_is_one_failure_that_names_the_provider() {
    run(async {
        let throttled = exception("throttlingException", r#"{"message":"slow down, key-0123456789"}"#);
        let mut wrong = text("b");
        wrong[30] ^= 1;
        for (after, kind) in [
            (throttled, ErrorKind::RateLimited),
            (wrong, ErrorKind::Decode),
            (text("b")[..20].to_vec(), ErrorKind::Truncated),
        ] {
            let response = ask(with_key, GOOD, &[text("a"), after].concat(), 64).await.response;
            let error = response.error.clone().unwrap();
            assert_eq!((error.kind, response.text().as_str()), (kind, "a"), "{error}");
            assert_eq!(error.provider.as_deref(), Some("aws.bedrock"));
            assert!(!format!("{error:?}").contains("0123456789"), "{error:?}");
        }
    });
}

#[test]
fn fault_r7_97_refusals_are_told_apart_by_the_name_in_their_header_or_body() {
    run(async {
        let long = "ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/";
        for (status, name, body, kind) in [
            (429, long, json!({ "message": "M" }), ErrorKind::RateLimited),
            (429, "ModelNotReadyException", json!({ "message": "M" }), ErrorKind::Overloaded),
            (400, "ValidationException", json!({ "message": "M" }), ErrorKind::InvalidRequest),
            (400, "ServiceQuotaExceededException", json!({ "message": "M" }), ErrorKind::QuotaExceeded),
            (403, "UnrecognizedClientException", json!({ "message": "M" }), ErrorKind::Authentication),
            (403, "AccessDeniedException", json!({ "Message": "M" }), ErrorKind::PermissionDenied),
            (424, "ModelErrorException", json!({ "message": "M" }), ErrorKind::Server),
            (
                403,
                "",
                json!({ "__type": "com.amazon.coral.service#ExpiredTokenException", "message": "M" }),
                ErrorKind::Authentication,
            ),
            (404, "ResourceNotFoundException", json!({ "message": "M" }), ErrorKind::NotFound),
            (503, "", json!({ "message": "M" }), ErrorKind::Overloaded),
        ] {
            let named = if name.is_empty() { String::new() } else { format!("x-amzn-errortype: {name}\r\n") };
            let head = format!("{status} E\r\ncontent-type: application/json\r\n{named}");
            let error = ask(with_key, &head, body.to_string().as_bytes(), 999).await.response.error.unwrap();
            assert_eq!(
                (error.kind, error.status, error.message.as_str()),
                (kind, Some(status), "M"),
                "{name}"
            );
            let code = if name == long { "ThrottlingException" } else { name };
            assert!(name.is_empty() || error.code.as_deref() == Some(code), "{error:?}");
        }
        let head = "429 E\r\nretry-after: 7\r\nx-amzn-errortype: ThrottlingException\r\n";
        let error = ask(with_key, head, b"{}", 9).await.response.error.unwrap();
        assert_eq!(error.retry, RetryAdvice::After(std::time::Duration::from_secs(7)));
        let too_long = br#"{"message":"Input is too long for requested model."}"#;
        let head = "400 E\r\nx-amzn-errortype: ValidationException\r\n";
        let error = ask(with_key, head, too_long, 99).await.response.error.unwrap();
        assert_eq!(error.kind, ErrorKind::ContextOverflow);
    });
}

#[cfg(feature = "sigv4")]
#[test]
fn requests_are_signed_and_the_secrets_are_in_no_error() {
    use turnwright_providers::AwsCredentials;
    let credentials =
        AwsCredentials::new("AKIDEXAMPLE", "hush/secret+key=").session_token("hush/session+token=");
    run(async {
        let body = br#"{"message":"no match: hush/secret+key= x-amz-security-token:hush/session+token="}"#;
        let head = "403 F\r\nx-amzn-errortype: InvalidSignatureException\r\n";
        let signed = |builder: HttpClientBuilder<Converse>| builder.sign_with(credentials, "eu-west-1");
        let Exchange { head, response, .. } = ask(signed, head, body, 999).await;
        let signature = head.lines().find(|line| line.starts_with("authorization: ")).unwrap();
        assert!(
            signature.starts_with("authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"),
            "{signature}"
        );
        assert!(signature.contains("/eu-west-1/bedrock/aws4_request, SignedHeaders="), "{signature}");
        assert!(
            signature.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,"),
            "{signature}"
        );
        assert!(head.contains("x-amz-security-token: hush/session+token="), "{head}");
        let error = response.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Authentication);
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    });
}

#[test]
fn an_answer_gets_its_form_by_a_tool_that_any_model_can_be_offered() {
    let client = ConverseClient::builder().base_url("http://127.0.0.1").build().unwrap();
    assert_eq!(ModelHandle::new(client, MODEL).client().dyn_output_way(&asked()), OutputWay::OfferedTool);
}

/// Recorded answers over a socket. They are other projects' data and stand outside this repository, see the tests of the
/// decoders; without them this test passes, unless `CI` is set.
#[test]
fn recorded_frames_come_through_the_socket_whole() {
    let folder = std::env::var_os("TURNWRIGHT_CORPUS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"), Into::into);
    if !folder.is_dir() {
        let message = format!("no corpus at {}; set TURNWRIGHT_CORPUS to run this test", folder.display());
        assert!(std::env::var_os("CI").is_none(), "{message}");
        // Not with `eprintln`, which the test harness swallows.
        let _ = writeln!(std::io::stderr(), "skipped: {message}");
        return;
    }
    run(async {
        for name in ["ddpy-bedrock-converse-stream", "pydai-bedrock-model-thinking-part-redacted-stream"] {
            let read = |path: String| fs::read(folder.join(path)).unwrap();
            let expected: Value =
                serde_json::from_slice(&read(format!("expected/bedrock/{name}.json"))).unwrap();
            let body = read(format!("bedrock/{name}.eventstream"));
            let response = ask(with_key, GOOD, &body, 101).await.response;
            assert_eq!(response.error, None, "{name}");
            assert_eq!(response.text(), expected["text"].as_str().unwrap_or_default(), "{name}");
            assert_eq!(response.raw_finish_reason.as_deref(), expected["finish_reason"].as_str(), "{name}");
            let calls = expected["tool_calls"].as_array().map_or(0, Vec::len);
            assert_eq!(response.tool_calls().count(), calls, "{name}");
        }
    });
}
