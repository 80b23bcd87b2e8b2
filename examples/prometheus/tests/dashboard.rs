//! The dashboard has what Grafana's schema of dashboards asks for (`kinds/dashboard/dashboard_kind.cue` of its sources, and the
//! options of its time series panel). No Grafana reads it here.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

fn dashboard() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/redisson-lock.json");
    serde_json::from_str(&fs::read_to_string(file).expect("the dashboard")).expect("JSON")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("no list {field} in {value}"))
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {value}"))
}

/// The variables that a text uses: `$name` and `${name}`, but those of Grafana itself.
fn used(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        Some(&rest[..end]).filter(|name| !name.is_empty() && !name.starts_with("__"))
    })
}

#[test]
fn the_dashboard_itself_is_complete() {
    let dashboard = dashboard();
    assert!((8..=40).contains(&text(&dashboard, "uid").len()));
    assert!(!text(&dashboard, "title").is_empty() && dashboard["editable"].is_boolean());
    // From this version on Grafana changes no legend and no data source when it reads the file.
    assert!(number(&dashboard, "schemaVersion") >= 37);
    assert!(number(&dashboard, "graphTooltip") <= 2);
    assert_eq!(
        (text(&dashboard["time"], "from"), text(&dashboard["time"], "to")),
        ("now-30m", "now")
    );
    // Grafana gives the numbers of an imported dashboard.
    assert!(dashboard["id"].is_null() && dashboard["__inputs"].is_null());
}

#[test]
fn each_variable_that_is_used_is_there() {
    let dashboard = dashboard();
    let variables = list(&dashboard["templating"], "list");
    let mut names = BTreeSet::new();
    for variable in variables {
        match text(variable, "type") {
            "datasource" => assert_eq!(text(variable, "query"), "prometheus"),
            "query" => {
                assert_eq!(text(&variable["datasource"], "type"), "prometheus");
                assert_eq!(text(variable, "definition"), text(&variable["query"], "query"));
                assert!((1..=2).contains(&number(variable, "refresh")), "{variable}");
            }
            other => panic!("a variable of type {other}"),
        }
        assert!(names.insert(text(variable, "name")), "twice: {variable}");
    }
    let all = dashboard.to_string();
    let used: BTreeSet<_> = used(&all).collect();
    assert_eq!(used, names);
}

#[test]
fn each_panel_is_complete_and_they_do_not_overlap() {
    let dashboard = dashboard();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard, "panels") {
        let title = text(panel, "title");
        assert!(ids.insert(number(panel, "id")), "{title}: its id is used twice");
        assert_eq!(text(panel, "type"), "timeseries", "{title}");
        let [h, w, x, y] = ["h", "w", "x", "y"].map(|side| number(&panel["gridPos"], side));
        assert!(h > 0 && w > 0 && x + w <= 24, "{title} does not fit into 24 columns");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} covers another panel");
        }

        let defaults = &panel["fieldConfig"]["defaults"];
        assert!(!text(defaults, "unit").is_empty() && defaults["custom"].is_object(), "{title}");
        assert!(list(&panel["fieldConfig"], "overrides").iter().all(Value::is_object), "{title}");
        let legend = &panel["options"]["legend"];
        assert!(["list", "table"].contains(&text(legend, "displayMode")), "{title}");
        assert!(["bottom", "right"].contains(&text(legend, "placement")), "{title}");
        assert!(legend["showLegend"] == true && legend["calcs"].is_array(), "{title}");
        let tooltip = &panel["options"]["tooltip"];
        assert!(["single", "multi", "none"].contains(&text(tooltip, "mode")), "{title}");
        assert!(["asc", "desc", "none"].contains(&text(tooltip, "sort")), "{title}");

        let mut queries = BTreeSet::new();
        for target in list(panel, "targets") {
            assert!(queries.insert(text(target, "refId")), "{title}: two queries of one name");
            assert_eq!(target["datasource"], panel["datasource"], "{title}");
            assert_eq!(text(&target["datasource"], "uid"), "${datasource}", "{title}");
            assert!(!text(target, "legendFormat").is_empty() && target["range"] == true, "{title}");
            let query = text(target, "expr");
            assert_eq!(query.matches('(').count(), query.matches(')').count(), "{query}");
            assert!(query.contains("$lock") && query.contains("$kind"), "{query}");
        }
        assert!(!queries.is_empty(), "{title} has no query");
    }
}
