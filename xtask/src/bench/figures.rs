//! What one round of the benches measured.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// Medians in nanoseconds by `group/id`, throughputs in bytes by `group/id`, and what benches print themselves.
#[derive(Debug, Default)]
pub(super) struct Figures {
    values: BTreeMap<String, f64>,
    bytes: BTreeMap<String, f64>,
}

impl Figures {
    /// Looks at a line a bench printed: `figure NAME VALUE`.
    pub(super) fn see(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        if let (Some("figure"), Some(name), Some(Ok(value))) =
            (words.next(), words.next(), words.next().map(str::parse))
        {
            self.values.insert(name.to_owned(), value);
        }
    }

    /// Reads what criterion wrote below its directory.
    pub(super) fn read(&mut self, home: &Path) -> Result<(), String> {
        for group in folders(home)? {
            for id in folders(&group)? {
                let new = id.join("new");
                let Ok(benchmark) = json(&new.join("benchmark.json")) else { continue };
                let name = benchmark["full_id"].as_str().unwrap_or_default().to_owned();
                let estimates = json(&new.join("estimates.json"))?;
                let median = estimates["median"]["point_estimate"].as_f64();
                let median = median.ok_or_else(|| format!("{} has no median", new.display()))?;
                if let Some(bytes) = benchmark["throughput"]["Bytes"].as_f64() {
                    self.bytes.insert(name.clone(), bytes);
                }
                // What a bench printed itself was measured better.
                self.values.entry(name).or_insert(median);
            }
        }
        Ok(())
    }

    /// Takes the figures of another run beside these.
    pub(super) fn join(&mut self, other: &Self) {
        self.values.extend(other.values.iter().map(|(name, value)| (name.clone(), *value)));
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, name: &str, value: f64, bytes: Option<f64>) {
        self.values.insert(name.to_owned(), value);
        if let Some(bytes) = bytes {
            self.bytes.insert(name.to_owned(), bytes);
        }
    }

    pub(super) fn get(&self, name: &str) -> Result<f64, String> {
        self.values.get(name).copied().ok_or_else(|| format!("no bench measured `{name}`"))
    }

    /// How many bytes one iteration works on.
    pub(super) fn bytes(&self, name: &str) -> Result<f64, String> {
        self.bytes.get(name).copied().ok_or_else(|| format!("`{name}` has no throughput in bytes"))
    }
}

fn folders(path: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let failed = |e: std::io::Error| format!("{} cannot be read: {e}", path.display());
    let entries: Result<Vec<_>, _> = std::fs::read_dir(path).map_err(failed)?.collect();
    Ok(entries.map_err(failed)?.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

fn json(path: &Path) -> Result<Value, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{} is not JSON: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_figures_count() {
        let mut figures = Figures::default();
        figures.see("figure turn/burst_bare 1.05");
        figures.see("turn/burst_hand time: 1 ms");
        figures.see("figure broken x");
        assert_eq!(figures.get("turn/burst_bare"), Ok(1.05));
        assert!(figures.get("broken").unwrap_err().contains("`broken`"));
        let mut other = Figures::default();
        other.see("figure idle_bytes/1000 5");
        figures.join(&other);
        assert_eq!(figures.get("idle_bytes/1000"), Ok(5.0));
    }
}
