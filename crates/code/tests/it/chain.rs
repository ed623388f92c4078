//! Layers around cells.

use std::sync::Arc;

use parking_lot::Mutex;
use turnwright_code::Python;
use turnwright_core::{CodeCell, CodeResult, ErrorKind, TurnContext};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};

use crate::support::{NEW, cells_by, texts, turn};

enum Layer {
    Mutate,
    ShortCircuit,
    Block,
    Repeat,
    Language,
}

struct Cells(Layer, Arc<Mutex<Vec<String>>>);

impl Around<scope::ExecuteCode> for Cells {
    async fn around(
        &self,
        _: &TurnContext,
        mut cell: CodeCell,
        next: Next<'_, scope::ExecuteCode>,
    ) -> Result<CodeResult, Exit> {
        self.1.lock().push(cell.code.clone());
        match self.0 {
            Layer::Mutate => {
                cell.code = cell.code.replace('1', "2");
                let mut result = next.run(cell).await?;
                result.output.push_str("(seen)");
                Ok(result)
            }
            Layer::ShortCircuit => Ok(CodeResult { output: "cached".into(), ..CodeResult::default() }),
            Layer::Block => Err(Exit::failed(ErrorKind::Denied, "cells with 1 are not allowed")),
            Layer::Repeat => {
                let mut replay =
                    next.replayable().map_err(|refused| Exit::failed(ErrorKind::Internal, refused.why()))?;
                replay.run(cell.clone()).await?;
                replay.run(cell).await
            }
            Layer::Language => {
                cell.language = "cobol".into();
                next.run(cell).await
            }
        }
    }
}

async fn with(layer: Layer, cells: [&'static str; 2]) -> (Vec<String>, Vec<String>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let agent = cells_by(&Python::default(), cells).interceptor(interceptor!(Cells(layer, seen.clone())));
    let ran = turn(&agent.build().unwrap().new_session()).await;
    let seen = seen.lock().clone();
    (texts(&ran).into_iter().map(str::to_owned).collect(), seen)
}

/// middleware-hooks §7.2 row 3: each layer once a cell.
#[tokio::test]
async fn a_layer_changes_cells_and_results() {
    let (said, seen) = with(Layer::Mutate, ["print(1)", "1"]).await;
    assert_eq!(said, [format!("{NEW}\n2\n(seen)"), "(seen)\n[value] 2".into()]);
    assert_eq!(seen, ["print(1)", "1"]);
}

/// middleware-hooks §7.1 row 12, §7.2 row 3.
#[tokio::test]
async fn a_layer_answers_by_itself_and_no_interpreter_starts() {
    assert_eq!(with(Layer::ShortCircuit, ["1", "2"]).await.0, ["cached", "cached"]);
}

#[tokio::test]
async fn a_layer_blocks_and_the_turn_goes_on() {
    let (said, _) = with(Layer::Block, ["1", "1"]).await;
    assert!(said.iter().all(|text| text.contains("cells with 1 are not allowed")), "{said:?}");
}

#[tokio::test]
async fn a_layer_runs_a_cell_twice_in_the_same_interpreter() {
    let (said, seen) = with(Layer::Repeat, ["n = globals().get('n', 0) + 1", "n"]).await;
    assert_eq!((said[1].as_str(), seen.len()), ("[value] 2", 2));
}

#[tokio::test]
async fn a_cell_of_another_language_does_not_run() {
    let (said, _) = with(Layer::Language, ["1", "1"]).await;
    assert!(said[0].contains("cells here are python, not cobol"), "{said:?}");
}
