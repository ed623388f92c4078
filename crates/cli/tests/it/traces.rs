//! `--otlp`: what a receiver gets, and that one which is not there changes nothing.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, run, server, stderr, stdout, turnwright};

/// Head and body.
type Request = (String, Vec<u8>);

/// An OTLP receiver: takes every request, and keeps its head and body.
struct Receiver {
    url: String,
    taken: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let keeps = taken.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let request = request(stream);
                keeps.lock().unwrap().push(request);
            }
        });
        Self { url, taken }
    }

    fn taken(&self) -> Vec<Request> {
        self.taken.lock().unwrap().clone()
    }
}

fn request(mut stream: TcpStream) -> Request {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let n = stream.read(&mut piece).unwrap();
        assert!(n > 0, "a request that breaks off");
        bytes.extend_from_slice(&piece[..n]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        if bytes.len() - end - 4 >= length.trim().parse::<usize>().unwrap() {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            return (head, bytes[end + 4..].to_vec());
        }
    }
}

fn has(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_receiver_gets_the_spans_of_the_tier_and_no_word_that_was_said() {
    run(async {
        for (tier, has_chat, has_iteration) in
            [("minimal", false, false), ("standard", true, false), ("full", true, true)]
        {
            let receiver = Receiver::start();
            let provider = server([Reply::new().text("the answer")]).await;
            let mut command = ask(&provider, &["the prompt", "--otlp", &receiver.url, "--trace-tier", tier]);
            let output = command.current_dir(directory()).output().await.unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert_eq!((stdout(&output).trim(), stderr(&output).contains("traces")), ("the answer", false));
            let taken = receiver.taken();
            let [(head, body)] = taken.as_slice() else { panic!("{} requests", taken.len()) };
            assert!(head.starts_with("post /v1/traces "), "{head}");
            assert!(head.contains("content-type: application/x-protobuf"), "{head}");
            assert!(has(body, "invoke_agent turnwright") && has(body, "service.name"));
            assert_eq!(has(body, "chat m"), has_chat, "{tier}");
            assert_eq!(has(body, "iteration 1"), has_iteration, "{tier}");
            assert!(!has(body, "the prompt") && !has(body, "the answer"), "{tier}");
        }
    });
}

#[test]
fn the_file_may_ask_for_content_and_name_the_server() {
    run(async {
        let (receiver, root) = (Receiver::start(), directory());
        let provider = server([Reply::new().text("the answer")]).await;
        let file = format!("[trace]\notlp = {:?}\ntier = \"full\"\ncontent = \"full\"\n", receiver.url);
        std::fs::write(root.join("turnwright.toml"), file).unwrap();
        let output = ask(&provider, &["the prompt"]).current_dir(&root).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let taken = receiver.taken();
        let body = &taken[0].1;
        assert!(has(body, "iteration 1") && has(body, "the prompt") && has(body, "the answer"));
    });
}

#[test]
fn fault_g17_a_receiver_that_is_not_there_is_told_of_and_changes_nothing() {
    run(async {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let provider = server([Reply::new().text("the answer")]).await;
        let mut command = ask(&provider, &["hi", "--otlp", &format!("http://{nobody}")]);
        let output = command.current_dir(directory()).output().await.unwrap();
        assert_eq!((output.status.code(), stdout(&output).trim()), (Some(0), "the answer"));
        assert!(
            stderr(&output).contains("traces are not whole: 0 spans were sent, 2 were not"),
            "{}",
            stderr(&output)
        );

        let output = turnwright(&["run", "hi", "--otlp", "nowhere"]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("--otlp needs a URL"), "{}", stderr(&output));
        let output = turnwright(&["run", "hi", "--trace-tier", "all"]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2));
    });
}
