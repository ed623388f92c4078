//! `turnwright.toml`: what the options and the environment do not say.
//!
//! What is an option of the command line too becomes that option's default, so that one order holds for all: the command
//! line wins over the environment, the environment over the file, the file over what is built in.

mod check;
mod keys;
mod load;
mod mistake;
mod read;
mod sense;
mod show;

pub(crate) use check::run as check;
pub(crate) use keys::KEYS;
use load::Value;
pub(crate) use load::{Config, find};
pub(crate) use show::show;

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    const BEGIN: &str = "<!-- keys: written by a test -->\n";
    const END: &str = "<!-- /keys -->";

    /// The page lists every key as the table in the code has it. `TURNWRIGHT_UPDATE=1` writes it.
    #[test]
    fn the_page_lists_every_key() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let mut table = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in KEYS {
            let also = key.option.map(|option| format!("; `--{}`", option.replace('_', "-")));
            table.push_str(&format!(
                "| `{}` | {} | {} | {}{} |\n",
                key.name,
                key.kind.wanted().replace('"', "`"),
                key.default,
                key.meaning,
                also.unwrap_or_default()
            ));
        }
        let wanted = format!("{before}{BEGIN}{table}{END}{after}");
        if std::env::var_os("TURNWRIGHT_UPDATE").is_some() {
            std::fs::write(PAGE, &wanted).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(PAGE).unwrap(),
            wanted,
            "TURNWRIGHT_UPDATE=1 writes the page anew"
        );
    }

    #[test]
    fn the_example_of_the_page_is_legal_and_names_every_table() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("turnwright.toml");
        std::fs::write(&file, example).unwrap();
        let config = load::check(&file).unwrap();
        for key in KEYS {
            let table = key.name.split('.').next().unwrap();
            assert!(
                KEYS.iter().any(|k| k.name.starts_with(table) && config.get(k.name).is_some()),
                "[{table}] is missing"
            );
        }
    }

    #[test]
    fn keys_are_sorted_and_their_options_exist() {
        use clap::CommandFactory;
        assert!(KEYS.is_sorted_by_key(|key| key.name));
        let mut all = Vec::new();
        let mut commands = vec![crate::args::Cli::command()];
        while let Some(command) = commands.pop() {
            all.extend(command.get_arguments().map(|argument| argument.get_id().to_string()));
            commands.extend(command.get_subcommands().cloned());
        }
        for option in KEYS.iter().filter_map(|key| key.option) {
            assert!(all.iter().any(|id| id == option), "{option}");
        }
    }
}
