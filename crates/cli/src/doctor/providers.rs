//! Models that could be asked: what the environment names, and what listens on this machine.

use futures::future::join_all;
use turnwright::ChatClient;
use url::{Host, Url};

use super::{
    check::{Report, Status},
    probe::{FAR, NEAR, answers},
};
use crate::{
    agent::{self, KEY, var},
    args::AgentArgs,
};

/// Servers for one machine, and their usual ports. All speak chat completions.
const LOCAL: [(&str, u16); 4] = [("Ollama", 11434), ("llama.cpp", 8080), ("LM Studio", 1234), ("vLLM", 8000)];

/// Variables of providers that are not spoken yet.
const NOT_YET: [&str; 2] = ["ANTHROPIC_API_KEY", "GEMINI_API_KEY"];

/// With any of these the way to a server may lead through a proxy.
const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

pub(super) async fn check(args: &AgentArgs, report: &mut Report) {
    let base_url = agent::base_url(args);
    match (var(KEY), &base_url) {
        (Some(key), _) => match ChatClient::builder().api_key(key).build() {
            Ok(_) => drop(report.add(KEY, Status::Ok, "set")),
            // What the client refuses it also explains, without the key.
            Err(e) => report.add(KEY, Status::Problem, e.message).hint("set it anew, without line breaks"),
        },
        (None, Some(_)) => {
            let check = report.add(KEY, Status::Missing, "not set");
            check.hint("a server of your own may need none");
        }
        (None, None) => {
            let check =
                report.add(KEY, Status::Problem, "not set, and no base URL is: no provider is configured");
            check.hint("set OPENAI_API_KEY, or for a server without keys OPENAI_BASE_URL or --base-url");
        }
    }
    match &base_url {
        Some(url) => server(url, report).await,
        None => {
            report.add("base URL", Status::Missing, "not set: the provider's own is used, with a key");
        }
    }
    match agent::model_name(args) {
        Some(name) => {
            report.add("model", Status::Ok, name);
        }
        None => {
            let check = report.add("model", Status::Problem, "not named");
            check.hint("add --model NAME or set TURNWRIGHT_MODEL; the provider says which it has");
        }
    }
    for name in NOT_YET.into_iter().filter(|name| var(name).is_some()) {
        let check = report.add(name, Status::Missing, "set, but this version does not speak it yet");
        check.hint("many servers in between speak chat completions: --base-url");
    }
    if var("OLLAMA_HOST").is_some() {
        let check = report.add("OLLAMA_HOST", Status::Missing, "set, but this version does not read it yet");
        check.hint("Ollama speaks chat completions too: --base-url http://HOST:PORT/v1");
    }
    local(report).await;
}

/// The server that was named.
async fn server(base_url: &str, report: &mut Report) {
    // What the client refuses it also explains, without repeating what may be secret.
    if let Err(e) = ChatClient::builder().base_url(base_url).build() {
        let check = report.add("base URL", Status::Problem, e.message);
        return check.hint("check --base-url and OPENAI_BASE_URL");
    }
    let Ok(url) = Url::parse(base_url.trim()) else { return };
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return };
    // The path may be a secret of its own.
    let place = url.origin().ascii_serialization();
    let is_near = match &host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    };
    if !is_near && PROXIES.into_iter().any(|name| var(name).is_some()) {
        let check = report.add("base URL", Status::Ok, format!("{place}, not tried: a proxy is configured"));
        return check.hint("`turnwright run` tells whether the way through the proxy works");
    }
    let host = match host {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
    };
    if answers(&host, port, FAR).await {
        report.add("base URL", Status::Ok, format!("{place} answers"));
    } else {
        let check = report.add("base URL", Status::Problem, format!("{place} does not answer"));
        check.hint("is a server running there? check --base-url and OPENAI_BASE_URL");
    }
}

/// What listens on this machine, all asked at once.
async fn local(report: &mut Report) {
    let found = join_all(LOCAL.map(|(_, port)| answers("127.0.0.1", port, NEAR))).await;
    for ((name, port), answers) in LOCAL.into_iter().zip(found) {
        if answers {
            let check = report.add(name, Status::Ok, format!("something answers on its usual port, {port}"));
            check.hint(format!("if that is {name}: --base-url http://127.0.0.1:{port}/v1"));
        } else {
            report.add(name, Status::Missing, format!("nothing answers on 127.0.0.1:{port}"));
        }
    }
}
