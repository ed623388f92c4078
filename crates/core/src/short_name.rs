//! What a thing is called in plans and failures when nobody gave it a name.

use std::any::type_name;

/// The name of a type, without path and parameters: `retry::Retry<Policy>` is `Retry`, and so is an optional one. A closure has
/// no name and is called after the function it is written in: `Summarizer::attach`.
pub fn short_name<T: ?Sized>() -> &'static str {
    shorten(type_name::<T>())
}

fn shorten(path: &str) -> &str {
    const CLOSURE: &str = "::{{closure}}";
    let Some(mut function) = path.strip_suffix(CLOSURE) else {
        let path = path.strip_prefix("core::option::Option<").unwrap_or(path);
        let head = path.split(['<', '>']).next().unwrap_or(path);
        return head.rsplit("::").next().unwrap_or(head);
    };
    while let Some(outer) = function.strip_suffix(CLOSURE) {
        function = outer;
    }
    let plain = function.rsplit('>').next().unwrap_or(function).trim_start_matches("::");
    match plain.rmatch_indices("::").nth(1) {
        Some((at, colons)) => &plain[at + colons.len()..],
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn path_and_parameters_are_left_out() {
        for (path, name) in [
            ("turnwright::builtin::Retry", "Retry"),
            ("a::Cache<b::Key, core::option::Option<c::Value>>", "Cache"),
            ("core::option::Option<a::Retry>", "Retry"),
            ("dyn a::Gate", "Gate"),
            ("u8", "u8"),
        ] {
            assert_eq!(shorten(path), name);
        }
    }

    #[test]
    fn a_closure_is_called_after_its_function() {
        for (path, name) in [
            ("a::summarizer::Summarizer::attach::{{closure}}", "Summarizer::attach"),
            ("a::main::{{closure}}::{{closure}}", "a::main"),
            ("<a::Log as b::Sink>::open::{{closure}}", "open"),
            ("main::{{closure}}", "main"),
        ] {
            assert_eq!(shorten(path), name);
        }
    }
}
