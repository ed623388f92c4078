//! Errors that a provider reports inside a stream, or in its place.

use turnwright_core::{ErrorKind, RetryAdvice};

use crate::{
    format::{ALL, Format, SSE},
    read::{assemble, decode, failure, items, read},
};

/// The shapes in which this format reports that it is busy.
fn busy(format: Format) -> Vec<(&'static str, &'static str)> {
    match format {
        Format::Chat => vec![
            (r#"{"error":{"code":"server_is_overloaded","message":"M"}}"#, "server_is_overloaded"),
            (
                r#"{"error":{"message":"M","type":"overloaded_error","code":null},"choices":[]}"#,
                "overloaded_error",
            ),
            (
                r#"{"id":"r","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":503,"message":"M","metadata":{"error_type":"overloaded"}}}"#,
                "overloaded",
            ),
        ],
        Format::Responses => vec![
            (
                r#"{"type":"error","error":{"type":"service_unavailable_error","code":"server_is_overloaded","message":"M"}}"#,
                "server_is_overloaded",
            ),
            (
                r#"{"type":"error","code":"server_is_overloaded","message":"M","param":null}"#,
                "server_is_overloaded",
            ),
            (
                r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_is_overloaded","message":"M"}}}"#,
                "server_is_overloaded",
            ),
        ],
        Format::Messages => vec![(
            r#"{"type":"error","error":{"type":"overloaded_error","message":"M"},"request_id":"q"}"#,
            "overloaded_error",
        )],
        Format::Gemini => vec![
            (r#"{"error":{"code":503,"message":"M","status":"UNAVAILABLE"}}"#, "UNAVAILABLE"),
            (r#"[{"error":{"code":503,"message":"M","status":"UNAVAILABLE","details":[]}}]"#, "UNAVAILABLE"),
        ],
        Format::Ollama => vec![(r#"{"error":{"message":"M","code":"overloaded"}}"#, "overloaded")],
    }
}

#[test]
fn fault_e21_r1_27_r1_32_r7_97_an_error_in_the_stream_is_a_failure_with_its_code_and_what_was_said() {
    for format in ALL {
        for (error, code) in busy(format) {
            let framings: &[&str] = match format {
                Format::Ollama => &["{}\n", "{}"],
                _ => &["data: {}\n\n", "event: error\ndata: {}\n\n", "data: {}"],
            };
            for framing in framings {
                let event = framing.replace("{}", error);
                let response = assemble(&items(format, &(format.half() + &event)));
                let failed = response.error.clone().unwrap_or_else(|| panic!("{format:?}: {event}"));
                assert_eq!(
                    (failed.kind, failed.message.as_str()),
                    (ErrorKind::Overloaded, "M"),
                    "{format:?}: {event}"
                );
                assert_eq!(
                    (failed.code.as_deref(), failed.provider.as_deref()),
                    (Some(code), Some("p")),
                    "{format:?}"
                );
                assert_eq!(
                    (failed.retry, response.finish_reason),
                    (RetryAdvice::Backoff, None),
                    "{format:?}"
                );
                assert_eq!(response.text(), "half", "{format:?}: {event}");
                assert!(response.usage.partial, "{format:?}");
            }
        }
    }
}

#[test]
fn fault_e23_r7_97_an_error_body_in_place_of_a_stream_is_understood_however_it_is_printed() {
    for format in ALL {
        for (error, code) in busy(format) {
            // As the last event of a stream this says more than an error alone can.
            if error.contains("response.failed") || error.contains("choices\":[{") {
                continue;
            }
            let value: serde_json::Value = serde_json::from_str(error).unwrap();
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            for body in [
                error,
                &pretty,
                &pretty.replace('\n', "\r\n"),
                &format!("\n {error} \n"),
                &format!("\u{feff}{error}"),
            ] {
                for body in [body.to_owned(), format.half() + body.trim_start_matches('\u{feff}')] {
                    let failed = assemble(&items(format, &body)).error.unwrap();
                    assert_eq!(failed.kind, ErrorKind::Overloaded, "{format:?}: {body}: {failed}");
                    assert_eq!(failed.code.as_deref(), Some(code), "{format:?}: {body}");
                }
            }
        }
        for body in [
            r#"{"error":"M"}"#,
            r#"{"error":["M"]}"#,
            r#"{"message":"M"}"#,
            r#"{"detail":"M"}"#,
            r#"{"detail":[{"msg":"M"}]}"#,
        ] {
            assert_eq!(assemble(&items(format, body)).error.unwrap().message, "M", "{format:?}: {body}");
        }
        for html in ["<html>", "\n<!DOCTYPE html><title>x</title>", "<?xml version='1.0'?>"] {
            let failed = assemble(&items(format, html)).error.unwrap();
            let expected = (ErrorKind::UnexpectedContent, false);
            assert_eq!((failed.kind, failed.is_retryable()), expected, "{format:?}: {html}");
        }
        for nothing in ["", "\n\n", "{}"] {
            let error = failure(format, nothing);
            assert!(!error.message.is_empty(), "{format:?}: {nothing:?} {error}");
        }
    }
}

#[test]
fn fault_e24_an_error_event_is_an_error_whatever_its_data_is() {
    for format in SSE {
        for data in [
            "",
            "data\n",
            "data:\n",
            "data: \n",
            "data: {}\n",
            "data: null\n",
            "data: it broke\n",
            "data: [DONE]\n",
        ] {
            for body in [String::new(), format.half()] {
                let body = format!("{body}event: error\n{data}\n");
                let response = assemble(&items(format, &body));
                // The body may end before the blank line.
                assert_eq!(assemble(&items(format, body.trim_end())), response, "{format:?} {data:?}");
                let error = response.error.unwrap_or_else(|| panic!("{format:?}: {body}"));
                assert_eq!(error.kind, ErrorKind::Server, "{format:?} {data:?}: {error}");
                assert!(!error.message.is_empty(), "{format:?} {data:?}");
            }
        }
    }
}

#[test]
fn fault_e21_an_error_after_the_finish_reason_is_still_an_error() {
    for format in [Format::Chat, Format::Messages, Format::Gemini] {
        let mut frames = format.answer(&[crate::format::Say::Text("half")]);
        if format == Format::Messages {
            frames.pop();
        }
        for (error, _) in busy(format) {
            let body = format!("{}data: {error}\n\n", format.body(&frames));
            let response = read(format, &body);
            let kind = response.error.as_ref().map(|e| e.kind);
            assert_eq!(
                (kind, response.text().as_str()),
                (Some(ErrorKind::Overloaded), "half"),
                "{format:?}: {error}"
            );
        }
    }
}

#[test]
fn what_is_no_json_is_a_decode_failure_and_nothing_of_it_is_repeated() {
    for format in ALL {
        let broken = match format {
            Format::Ollama => "{\"message\": secret}\n{}\n".to_owned(),
            _ => "data: {\"choices\": secret}\n\ndata: {}\n\n".to_owned(),
        };
        let error = failure(format, &(format.half() + &broken));
        assert_eq!((error.kind, error.is_retryable()), (ErrorKind::Decode, false), "{format:?}");
        assert!(!error.message.contains("secret"), "{format:?}: {error}");
        let latin = decode(
            format,
            [format.half().as_bytes(), &broken.replace("secret", "\"\u{1}\"").into_bytes()[..]],
        );
        assert!(assemble(&latin).error.is_some(), "{format:?}");
    }
}
