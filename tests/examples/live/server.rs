//! What the model's server says about itself.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use turnwright::core::{Clock, clock::SystemClock};

/// How long the server may take to see that nobody waits for an answer any more. It looks between two tokens; a prompt
/// it reads to the end first.
const FREE_LIMIT: Duration = Duration::from_secs(30);

/// The server beside its API.
pub(crate) struct Server {
    address: String,
}

impl Server {
    pub(crate) fn new(base_url: &str) -> Result<Self, String> {
        let rest = base_url.strip_prefix("http://").ok_or("the base URL must begin with http://")?;
        Ok(Self { address: rest.split('/').next().unwrap_or_default().to_owned() })
    }

    /// Waits until no answer is being made, and tells how long that took; none when it took too long.
    pub(crate) async fn free(&self) -> Result<Option<Duration>, String> {
        let start = SystemClock.instant();
        let free = async {
            while self.busy_slots().await? > 0 {
                sleep(Duration::from_millis(5)).await;
            }
            Ok(Some(SystemClock.instant() - start))
        };
        timeout(FREE_LIMIT, free).await.unwrap_or(Ok(None))
    }

    async fn busy_slots(&self) -> Result<usize, String> {
        let failed = |e: std::io::Error| format!("the server does not tell of its slots: {e}");
        let mut stream = TcpStream::connect(&self.address).await.map_err(failed)?;
        let request = format!("GET /slots HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(failed)?;
        busy(&answer).ok_or_else(|| format!("the server does not tell of its slots: {answer}"))
    }
}

/// How many slots are at work; none when the answer does not say it of every slot, so that a server which says it in
/// other words is not taken for one that is free.
fn busy(answer: &str) -> Option<usize> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let slots: Vec<Value> = serde_json::from_str(body).ok().filter(|_| head.starts_with("HTTP/1.1 200"))?;
    let at_work: Option<Vec<bool>> = slots.iter().map(|slot| slot["is_processing"].as_bool()).collect();
    at_work.filter(|all| !all.is_empty()).map(|all| all.into_iter().filter(|busy| *busy).count())
}
