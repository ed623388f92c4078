//! Tools that cells call.

use turnwright_code::Python;
use turnwright_react_runtime::{
    gate::AskFor,
    tool::{Json, ToolContext, tool},
};

use crate::support::{cells_by, texts, turn};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn add() -> impl turnwright_react_runtime::tool::Tool {
    tool("add", "Adds", async |_: ToolContext, Add { a, b }: Add| Ok(Json(a + b)))
}

#[tokio::test]
async fn a_cell_calls_tools_and_their_errors_are_its_exceptions() {
    let cells = [
        "print(tools.add(a=1, b=2)); int(tools('add', a=3, b=4)) + 1",
        "tools.add(a=1)",
        "try:\n    tools.nothing()\nexcept ToolError as e:\n    print('caught', e)",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as p:\n    r = list(p.map(lambda n: tools.add(a=n, b=n), range(20)))\n','.join(r)",
    ];
    let session = cells_by(&Python::default(), cells).tool(add()).build().unwrap().new_session();
    let ran = turn(&session).await;
    let said = texts(&ran);
    assert!(said[0].ends_with("\n3\n[value] 8"), "{}", said[0]);
    assert!(said[1].contains("ToolError: the arguments do not fit the schema"), "{}", said[1]);
    assert!(said[2].starts_with("caught there is no tool \"nothing\""), "{}", said[2]);
    let doubled: Vec<String> = (0..20).map(|n| (2 * n).to_string()).collect();
    assert_eq!(said[3], format!("[value] {}", doubled.join(",")));
}

#[tokio::test]
async fn what_a_person_has_to_approve_of_is_refused_inside_a_cell() {
    let cells = ["tools.add(a=1, b=2)"];
    let agent = cells_by(&Python::default(), cells).tool(add()).gate(AskFor::tools(["add"]));
    let ran = turn(&agent.build().unwrap().new_session()).await;
    assert!(ran[0].content.contains("make it a call of its own"), "{}", ran[0].content);
}

/// middleware-hooks §7.2 row 7: here no cell stands in another.
#[tokio::test]
async fn a_cell_in_a_cell_is_refused() {
    let session = cells_by(&Python::default(), ["tools.code(code='1')"]).build().unwrap().new_session();
    let ran = turn(&session).await;
    assert!(ran[0].content.contains("a cell cannot run inside of another call"), "{}", ran[0].content);
}
