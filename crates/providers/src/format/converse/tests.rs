//! Where requests go, and what the environment says.

use turnwright_core::ErrorKind;

use super::*;

fn address(base_url: &str, model: &str) -> String {
    let url = crate::base_url::endpoint(base_url, Converse::VERSION, Converse::PATH).unwrap();
    Converse::address(url, &LlmRequest { model: model.into(), ..LlmRequest::default() }).to_string()
}

#[test]
fn the_model_is_one_segment_of_the_path() {
    let base_url = Converse::region_url(" eu-central-1 ").unwrap();
    let host = "https://bedrock-runtime.eu-central-1.amazonaws.com";
    for (model, path) in [
        ("amazon.nova-micro-v1:0", "/model/amazon.nova-micro-v1%3A0/converse-stream"),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.x_y~z",
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.x_y~z/converse-stream",
        ),
        ("a b?c#d%e", "/model/a%20b%3Fc%23d%25e/converse-stream"),
    ] {
        assert_eq!(address(&base_url, model), format!("{host}{path}"));
    }
    assert_eq!(address("http://h:1/base/", "m"), "http://h:1/base/model/m/converse-stream");
}

#[test]
fn a_region_is_a_name_and_nothing_that_leads_elsewhere() {
    for region in ["", " ", "evil.test/", "us-east-1.evil.test", "u@evil", "US", "é"] {
        assert_eq!(Converse::region_url(region).unwrap_err().kind, ErrorKind::Configuration, "{region}");
    }
    let error = ConverseClient::builder().build().unwrap_err();
    assert!(error.message.contains("base URL"), "{error}");
}

fn client(vars: &[(&str, &str)]) -> Result<String, String> {
    let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    let client = ConverseClient::from_vars(var).map_err(|error| {
        assert_eq!(error.kind, ErrorKind::Configuration);
        error.message
    })?;
    Ok(format!("{client:?}"))
}

#[test]
fn the_environment_names_the_key_and_the_region_or_the_address() {
    let key = ("AWS_BEARER_TOKEN_BEDROCK", "hush-hush-hush");
    let region = ("AWS_REGION", "eu-west-1");
    for (vars, host) in [
        (&[key, region, ("AWS_DEFAULT_REGION", "eu-west-2")][..], "bedrock-runtime.eu-west-1.amazonaws.com"),
        (&[key, ("AWS_DEFAULT_REGION", "eu-west-2")], "bedrock-runtime.eu-west-2.amazonaws.com"),
        (&[key, region, ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://h:1/v")], "h:1/v/model"),
    ] {
        let text = client(vars).unwrap();
        assert!(text.contains(host) && text.contains("authorization") && !text.contains("hush"), "{text}");
    }
    let local = client(&[("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://h:1")]).unwrap();
    assert!(!local.contains("authorization"), "{local}");
    for (vars, words) in [
        (&[][..], "AWS_BEARER_TOKEN_BEDROCK"),
        (&[region], "AWS_BEARER_TOKEN_BEDROCK"),
        (&[key], "AWS_REGION"),
        (&[key, ("AWS_REGION", "nowhere/")], "region"),
    ] {
        let error = client(vars).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[cfg(feature = "sigv4")]
#[test]
fn credentials_sign_where_there_is_no_key() {
    let (id, secret) = (("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "hush-hush-hush"));
    let region = ("AWS_REGION", "eu-west-1");
    assert!(client(&[id, secret, region]).unwrap().contains("bedrock-runtime.eu-west-1"));
    let signer = |vars: &[(&str, &str)]| {
        let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        match ConverseClient::builder().environment(var).unwrap().setup.key {
            Key::Signer(signer) => Some(format!("{signer:?}")),
            _ => None,
        }
    };
    let text = signer(&[id, secret, region]).unwrap();
    assert!(text.contains("AKID") && text.contains("eu-west-1") && !text.contains("hush"), "{text}");
    assert_eq!(signer(&[id, secret, region, ("AWS_BEARER_TOKEN_BEDROCK", "key")]), None, "a key comes first");
    assert_eq!(signer(&[region]), None);
    let endpoint = ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://h:1");
    for (vars, words) in [
        (&[id, region][..], "AWS_SECRET_ACCESS_KEY"),
        (&[id, secret], "AWS_REGION"),
        (&[id, secret, endpoint], "AWS_REGION"),
        (&[id, ("AWS_SECRET_ACCESS_KEY", "hush\nhush"), region], "secret access key"),
    ] {
        let error = client(vars).unwrap_err();
        assert!(error.contains(words) && !error.contains("hush"), "{error}");
    }
    let builder = ConverseClient::builder().base_url("http://h:1").api_key("key");
    let signed = builder.sign_with(crate::AwsCredentials::new("AKID", "hush"), "r").build().unwrap();
    assert!(!format!("{signed:?}").contains("authorization"), "the key was replaced");
}
