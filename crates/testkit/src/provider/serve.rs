//! One request answered.

use std::{convert::Infallible, io, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use http_body_util::{BodyExt, Collected, StreamBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    WireFormat,
    draft::{Draft, Ending},
    state::{RecordedRequest, Shared},
};

type Frames = Pin<Box<dyn Stream<Item = io::Result<Frame<Bytes>>> + Send>>;
type Answered = Response<StreamBody<Frames>>;

pub(super) async fn serve(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Answered, Infallible> {
    let format = shared.format;
    let path = request.uri().path().to_owned();
    if request.method() != Method::POST || !format.serves(&path) {
        let message = format!("there is only POST {}", format.path());
        let body = json!({ "error": { "message": message, "type": "not_found", "code": "not_found" } });
        let watch = Watch { shared, model: String::new(), ended: false };
        return Ok(respond(&Draft::error(format, 404, &body), watch));
    }
    let headers = request.headers().iter();
    let headers =
        headers.map(|(n, v)| (n.as_str().to_owned(), String::from_utf8_lossy(v.as_bytes()).into_owned()));
    let headers = headers.collect();
    let body = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    let model = model_of(format, &path, &body);
    let answer = shared.next(RecordedRequest { path, model: model.clone(), headers, body });
    let answer = answer.unwrap_or_else(|| {
        let message = "the script is at its end";
        let error =
            json!({ "error": { "message": message, "type": "server_error", "code": "server_error" } });
        Draft::error(format, 500, &error)
    });
    if answer.mute {
        let _watch = Watch { shared, model, ended: false };
        return std::future::pending().await;
    }
    Ok(respond(&answer, Watch { shared, model, ended: false }))
}

/// The model that is asked for: in the path, or in the body.
fn model_of(format: WireFormat, path: &str, body: &[u8]) -> String {
    let in_path = format.path().split_once('*');
    let in_path = in_path.and_then(|(head, tail)| path.strip_prefix(head)?.strip_suffix(tail));
    let in_body =
        || serde_json::from_slice::<Value>(body).ok()?.get("model")?.as_str().map(ToOwned::to_owned);
    in_path.map(ToOwned::to_owned).or_else(in_body).unwrap_or_default()
}

fn respond(answer: &Draft, watch: Watch) -> Answered {
    let (status, content_type) = (answer.status, answer.content_type);
    let mut response = Response::new(StreamBody::new(body(answer, watch)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    for (name, value) in &answer.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Tells a body that was sent to its end from one that the client closed.
struct Watch {
    shared: Arc<Shared>,
    /// The model that was asked for.
    model: String,
    ended: bool,
}

impl Watch {
    fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.client_closed(&self.model);
        }
    }
}

fn body(answer: &Draft, watch: Watch) -> Frames {
    let (delay, ending) = (answer.delay, answer.ending.clone());
    let state = (answer.pieces().into_iter(), watch, ending);
    Box::pin(stream::unfold(state, move |(mut pieces, mut watch, ending)| async move {
        if let Some(piece) = pieces.next() {
            pause(delay).await;
            return Some((Ok(Frame::data(piece)), (pieces, watch, ending)));
        }
        match &ending {
            Ending::Stall => std::future::pending().await,
            Ending::Repeat { every, bytes } => {
                pause(*every).await;
                let bytes = bytes.clone();
                Some((Ok(Frame::data(bytes)), (pieces, watch, ending)))
            }
            Ending::Abort | Ending::Reset if !watch.ended => {
                watch.end();
                // Let what was sent arrive before the connection breaks.
                pause(Duration::from_millis(20)).await;
                Some((Err(io::ErrorKind::ConnectionReset.into()), (pieces, watch, ending)))
            }
            Ending::Abort | Ending::Reset | Ending::Clean => {
                watch.end();
                None
            }
        }
    }))
}

pub(super) async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}
