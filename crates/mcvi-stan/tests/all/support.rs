//! The list of supported functions in the documentation is that of the code.

#[test]
fn the_documentation_lists_what_is_supported() {
    let page = include_str!("../../../../docs/stan.md");
    let (_, list) = page.split_once("## Supported functions").expect("the section");
    let (_, list) = list.split_once("Of parameters and data:").expect("the first list");
    let (everywhere, of_data) = list.split_once("Of data alone:").expect("the second list");
    let names = |text: &str| text.split_whitespace().map(|w| w.trim_matches('`').to_owned()).collect::<Vec<_>>();
    let found = mcvi_stan::supported();
    assert_eq!(names(everywhere), found.0, "run the example supported");
    assert_eq!(names(of_data), found.1, "run the example supported");
}
