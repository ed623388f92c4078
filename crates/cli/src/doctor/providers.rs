//! Models that could be asked: what the environment names, and what listens on this machine.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use clap::ValueEnum;
use futures::future::join_all;
use url::{Host, Url};

use super::{
    check::{Report, Status},
    probe::{FAR, NEAR, answers},
};
use crate::{
    args::{AgentArgs, ProviderName},
    provider::{self, var},
    tape::Tape,
};

/// Servers for one machine, and their usual ports. All speak chat completions.
const LOCAL: [(&str, u16); 4] = [("Ollama", 11434), ("llama.cpp", 8080), ("LM Studio", 1234), ("vLLM", 8000)];

/// With any of these the way to a server may lead through a proxy.
const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

pub(super) async fn check(args: &AgentArgs, report: &mut Report) {
    if key(args, report) {
        server(args, report).await;
    }
    match provider::model_name(args) {
        Some(name) => {
            report.add("model", Status::Ok, name);
        }
        None => {
            let check = report.add("model", Status::Problem, "not named");
            check.hint("add --model NAME or set TURNWRIGHT_MODEL; the provider says which it has");
        }
    }
    others(args.provider, report);
    local(report).await;
}

/// The key of the provider that was named. Whether a client can be set up with it, or without one.
fn key(args: &AgentArgs, report: &mut Report) -> bool {
    let variables = args.provider.variables();
    if let Some(file) = &args.key.api_key_file {
        let place = file.display();
        if let Err(why) = readable(file) {
            let words = format!("the file {place} cannot be read: {why}");
            let check = report.add("API key", Status::Problem, words);
            check.hint("point --api-key-file at the file the key is in");
        } else {
            report.add("API key", Status::Ok, format!("from the file {place}, at each call"));
        }
        return true;
    }
    if provider::has_key(args) {
        report.add("API key", Status::Ok, "from a command, at each call; it is not run now");
        return true;
    }
    let name = variables.key().unwrap_or(variables.keys[0]);
    if let Some(key) = var(name) {
        if let Err(e) = args.provider.check_key(key) {
            report.add(name, Status::Problem, e.message).hint("set it anew, without line breaks");
            return false;
        }
        report.add(name, Status::Ok, "set");
    } else if provider::base_url(args).is_some() || variables.base_url().is_some() || !variables.is_needed {
        report.add(name, Status::Missing, "not set").hint("a server of your own may need none");
    } else {
        let words = "not set, and no base URL is: no provider is configured";
        report.add(name, Status::Problem, words).hint(variables.hint());
    }
    true
}

/// Whether a call could read this file. What it holds is the call's matter.
fn readable(file: &Path) -> io::Result<()> {
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    File::open(file).map(drop)
}

/// The server, and whether the client can be set up to ask it.
async fn server(args: &AgentArgs, report: &mut Report) {
    let variables = args.provider.variables();
    // What the client refuses it also explains, without repeating what may be secret.
    let url = match args.provider.open(args, "m", &Tape::Live) {
        Ok(opened) => opened.url,
        Err(refusal) => {
            let check = report.add("base URL", Status::Problem, refusal.message);
            return check.hint(refusal.hint.unwrap_or_default());
        }
    };
    if variables.is_needed && provider::base_url(args).is_none() && variables.base_url().is_none() {
        report.add("base URL", Status::Missing, "not set: the provider's own is used, with a key");
        return;
    }
    let Ok(url) = Url::parse(&url) else { return };
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return };
    // The path may be a secret of its own.
    let place = url.origin().ascii_serialization();
    let is_near = match &host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(ip) => ip.is_loopback() || ip.is_unspecified(),
        Host::Ipv6(ip) => ip.is_loopback() || ip.is_unspecified(),
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
        let base_urls = provider::any(variables.base_urls);
        check.hint(format!("is a server running there? check --base-url and {base_urls}"));
    }
}

/// Keys of providers that were not named.
fn others(named: ProviderName, report: &mut Report) {
    let named = named.variables();
    for other in ProviderName::ALL {
        let Some(name) = other.variables().key() else { continue };
        let is_first =
            ProviderName::ALL.into_iter().find(|p| p.variables().keys.contains(&name)) == Some(other);
        if is_first && !named.keys.contains(&name) {
            let option =
                other.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            report.add(name, Status::Ok, "set").hint(format!("to use it: --provider {option}"));
        }
    }
}

/// What listens on this machine, all asked at once.
async fn local(report: &mut Report) {
    let found = join_all(LOCAL.map(|(_, port)| answers("127.0.0.1", port, NEAR))).await;
    for ((name, port), answers) in LOCAL.into_iter().zip(found) {
        if answers {
            let check = report.add(name, Status::Ok, format!("something answers on its usual port, {port}"));
            check.hint(match name {
                "Ollama" => "if that is Ollama: --provider ollama".to_owned(),
                _ => format!("if that is {name}: --base-url http://127.0.0.1:{port}/v1"),
            });
        } else {
            report.add(name, Status::Missing, format!("nothing answers on 127.0.0.1:{port}"));
        }
    }
}
