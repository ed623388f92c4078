//! Whether something listens: a connection is opened and closed, nothing is sent.

use std::time::Duration;

use tokio::{net::TcpStream, time::timeout};

/// How long a server somewhere may take, and one on this machine.
pub(super) const FAR: Duration = Duration::from_secs(2);
pub(super) const NEAR: Duration = Duration::from_millis(300);

/// Whether a connection comes about within the time.
pub(super) async fn answers(host: &str, port: u16, within: Duration) -> bool {
    matches!(timeout(within, TcpStream::connect((host, port))).await, Ok(Ok(_)))
}
