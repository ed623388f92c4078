//! Export to receivers in this process: one that takes everything, one that never answers.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    trace::v1::{Span, span::SpanKind},
};
use prost::Message;
use turnwright_testkit::Reply;
use turnwright_trace_spans::{BatchLimits, Export, ExportStats, Otlp, Traces};

use crate::support::{agent, run};

/// Takes requests and gives their bodies.
fn receiver() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if tell.send(body(stream)).is_err() {
                return;
            }
        }
    });
    (url, told)
}

fn body(mut stream: TcpStream) -> Vec<u8> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let n = stream.read(&mut piece).unwrap();
        assert!(n > 0, "a request that breaks off");
        bytes.extend_from_slice(&piece[..n]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        if bytes.len() - end - 4 >= length.trim().parse::<usize>().unwrap() {
            assert!(head.starts_with("post /v1/traces "), "{head}");
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            return bytes[end + 4..].to_vec();
        }
    }
}

async fn turn(export: &Export) {
    let traces = Traces::builder().build(export.provider());
    let agent = agent([Reply::new().text("hi").usage(3, 4).finish()]);
    let agent = agent.hooks(traces.hooks()).instrument(traces.instrument()).build().unwrap();
    assert_eq!(run(&agent, "hi").await.result().content, "hi");
}

async fn shutdown(export: &Export, within: Duration) -> bool {
    let export = export.clone();
    tokio::task::spawn_blocking(move || export.shutdown(within).is_ok()).await.unwrap()
}

#[tokio::test]
async fn a_receiver_gets_what_was_traced_with_kinds_parents_and_numbers() {
    let (url, bodies) = receiver();
    // In an async runtime, of one thread: nothing here needs it.
    let export = Otlp::new().endpoint(url).service("tests").start().unwrap();
    turn(&export).await;
    assert!(shutdown(&export, Duration::from_secs(60)).await);
    assert_eq!(export.stats(), ExportStats { exported: 2, failed: 0, dropped: 0 });
    let request = ExportTraceServiceRequest::decode(bodies.recv().unwrap().as_slice()).unwrap();
    let resource = format!("{:?}", request.resource_spans[0].resource);
    assert!(resource.contains("service.name") && resource.contains("tests"), "{resource}");
    let scope = &request.resource_spans[0].scope_spans[0];
    assert_eq!(scope.scope.as_ref().unwrap().name, "turnwright");
    let of = |name: &str| -> &Span { scope.spans.iter().find(|span| span.name == name).unwrap() };
    let (root, chat) = (of("invoke_agent test"), of("chat scripted"));
    assert_eq!((root.kind(), chat.kind()), (SpanKind::Internal, SpanKind::Client));
    assert!(root.parent_span_id.is_empty() && chat.parent_span_id == root.span_id);
    let count =
        chat.attributes.iter().find(|attribute| attribute.key == "gen_ai.usage.input_tokens").unwrap();
    assert!(format!("{:?}", count.value).contains("IntValue(3)"));
}

#[tokio::test]
async fn fault_g17_a_receiver_that_never_answers_holds_up_neither_turns_nor_the_end() {
    // Connections are accepted by the system, and nobody reads.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let limits = BatchLimits { queue: 4, batch: 2, delay: Duration::from_millis(1) };
    let export = Otlp::new().endpoint(url).limits(limits).start().unwrap();
    for _ in 0..20 {
        turn(&export).await;
    }
    let stats = export.stats();
    assert_eq!((stats.exported, stats.dropped), (0, 36), "four wait, the others were dropped");
    assert!(!shutdown(&export, Duration::from_millis(50)).await);
}

#[test]
fn an_address_that_is_none_is_refused_at_the_start() {
    assert!(Otlp::new().endpoint("not a url").start().is_err());
}
