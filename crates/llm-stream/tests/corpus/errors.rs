//! The classifier against recorded error bodies.

use std::fs;

use turnwright_core::ErrorKind;
use turnwright_llm_stream::classify::{HttpFailure, Secrets};

use crate::support::{corpus, rows};

#[test]
fn every_recorded_error_body_is_classified() {
    let Some(corpus) = corpus() else { return };
    for row in rows(&corpus, "error-body") {
        let name = row["path"].as_str().unwrap();
        let status = u16::try_from(row["http_status"].as_u64().unwrap()).unwrap();
        let body = fs::read(corpus.join(name)).unwrap();
        let error = HttpFailure {
            provider: "p",
            status,
            content_type: Some("application/json"),
            retry_after: None,
            retry_after_ms: None,
            error_type: None,
            body: &body,
            secrets: &Secrets::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
        .classify();
        let expected = match status {
            400 if name.contains("handles-context") || name.contains("overflow") => {
                ErrorKind::ContextOverflow
            }
            400 if name.contains("api-key") || name.contains("authentication") => ErrorKind::Authentication,
            400 | 501 => ErrorKind::InvalidRequest,
            401 => ErrorKind::Authentication,
            403 => ErrorKind::PermissionDenied,
            404 => ErrorKind::NotFound,
            429 => ErrorKind::RateLimited,
            _ => ErrorKind::Server,
        };
        assert_eq!(error.kind, expected, "{name}: {error}");
        let context = error.context.as_deref().map(|size| (size.needed, size.limit, size.excess));
        let known = |needed: u64, limit: u64| Some((Some(needed), Some(limit), Some(needed - limit)));
        let expected = match name.split('/').next().unwrap() {
            _ if error.kind != ErrorKind::ContextOverflow => None,
            "cohere" => known(313_836, 288_000),
            "llamacpp" => known(2009, 512),
            "ollama-openai" => Some((None, None, Some(1_119_046))),
            "openrouter" => known(2_500_021, 200_000),
            "vertex" => known(1_250_074, 1_048_576),
            _ => None,
        };
        assert_eq!(context, expected, "{name}: {error}");
        assert!(!error.message.is_empty() && !error.message.contains("\"error\""), "{name}: {error}");
    }
}
