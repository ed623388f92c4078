//! Signatures as another implementation computes them.

use reqwest::{Method, Url};

use super::*;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// The headers of a signed request, by name.
fn signed(url: &str, body: &[u8], credentials: AwsCredentials, region: &str) -> Vec<(String, String)> {
    let mut request = Request::new(Method::POST, Url::parse(url).unwrap());
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let signer = Signer::new(credentials, region);
    signer.check().unwrap();
    signer.sign(&mut request, body, "2026-01-02T03:04:05Z".parse().unwrap()).unwrap();
    let headers = request.headers().iter();
    let mut headers: Vec<_> =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    headers.sort();
    headers
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// The figures were computed with botocore 1.44.8 (`SigV4Auth`, service `bedrock`).
#[test]
fn requests_are_signed_as_another_implementation_signs_them() {
    let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-3-sonnet-20240229-v1%3A0/converse-stream";
    let credentials = AwsCredentials::new("AKIDEXAMPLE", format!(" {SECRET}\n"));
    let expected = pairs([
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/bedrock/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=52c41d40e23cd4ac30a4b2f3e708b72ffe6865b538028c61a349c374986f427f",
        ),
        ("content-type", "application/json"),
        ("x-amz-date", "20260102T030405Z"),
    ]);
    assert_eq!(signed(url, br#"{"messages":[]}"#, credentials, "us-east-1"), expected);

    let url = "http://127.0.0.1:8080/base/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A1%3Ainference-profile%2Feu.x/converse-stream";
    let body = r#"{"messages":[{"role":"user","content":[{"text":"hé"}]}]}"#;
    let credentials = AwsCredentials::new("AKIDEXAMPLE", SECRET).session_token("to/ken+1==");
    let expected = pairs([
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/eu-central-1/bedrock/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, \
             Signature=7316c0a777b82e52c4708d4e6e3b780c669badc9bfedaff00dc22b0c73a3a299",
        ),
        ("content-type", "application/json"),
        ("x-amz-date", "20260102T030405Z"),
        ("x-amz-security-token", "to/ken+1=="),
    ]);
    assert_eq!(signed(url, body.as_bytes(), credentials, " eu-central-1 "), expected);
}

#[test]
fn what_no_header_can_hold_is_refused_and_not_repeated() {
    let new = AwsCredentials::new;
    for (credentials, region) in [
        (new("", SECRET), "r"),
        (new("hush\u{0}", SECRET), "r"),
        (new("a", "hush hush"), "r"),
        (new("a", ""), "r"),
        (new("a", SECRET).session_token("hush\nhush"), "r"),
        (new("a", SECRET), " "),
    ] {
        let error = Signer::new(credentials, region).check().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
        assert!(!error.message.contains("hush"), "{error}");
    }
    let text = format!("{:?}", Signer::new(new("AKID", SECRET).session_token("hush"), "r"));
    assert!(text.contains("AKID") && !text.contains("hush") && !text.contains(SECRET), "{text}");
}
