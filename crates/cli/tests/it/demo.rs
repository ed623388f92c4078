//! The demonstration turn.

use crate::support::{directory, events, run, stderr, stdout, text, turnwright};

#[test]
fn it_shows_the_three_powers_and_says_that_the_model_is_recorded() {
    run(async {
        let here = directory();
        std::fs::write(here.join("apple.txt"), "x").unwrap();
        let output = turnwright(&[]).current_dir(&here).output().await.unwrap();
        let screen = stdout(&output);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{screen}");
        for expected in [
            "the model is recorded",
            "hook        saw at before_tool_execution: 2 calls",
            "interceptor wrapped list_dir",
            "interceptor wrapped current_time",
            "list_dir answers: apple.txt 1",
            "control     you say \"Two sentences will do.\": it goes into the next model call",
            "model       The listing",
            "completed in",
            "tool_call: tool_result_limit, control_drain, Timer, tool_timeout",
            "OPENAI_BASE_URL",
            "run --model NAME",
            "cargo xtask ci",
        ] {
            assert!(screen.contains(expected), "{expected:?} is missing:\n{screen}");
        }
        assert!(!screen.contains('\x1b'), "{screen:?}");
        assert!(screen.lines().count() <= 40, "{screen}");
        let wide: Vec<_> = screen.lines().filter(|l| l.chars().count() > 80).collect();
        assert!(wide.iter().all(|l| l.contains("run --model")), "{wide:?}");
    });
}

#[test]
fn with_json_it_is_events_only() {
    run(async {
        let output = turnwright(&["--json"]).current_dir(directory()).output().await.unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
        let events = events(&stdout(&output));
        let end = events.last().unwrap();
        assert_eq!((&end["outcome"], &end["iterations"]), (&"completed".into(), &2.into()));
        let types: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
        for expected in ["tool_args_delta", "tool_call", "tool_result", "command", "usage"] {
            assert!(types.contains(&expected), "{types:?}");
        }
        let command = events.iter().find(|e| e["type"] == "command").unwrap();
        assert_eq!((&command["command"], &command["fate"]), (&"INJECT_STEER".into(), &"applied".into()));
        assert!(text(&events).ends_with(end["content"].as_str().unwrap()));
    });
}
