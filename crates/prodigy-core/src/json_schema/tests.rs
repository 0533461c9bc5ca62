//! Tests of schemas.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns what a schema says about a value.
fn verdict(schema: &Value, value: &Value) -> String {
    match OutputSchema::parse(schema) {
        Err(errors) => panic!("{schema}: {errors:?}"),
        Ok(schema) => match schema.validate(value) {
            Ok(()) => "ok".to_owned(),
            Err(violations) => {
                violations.iter().map(SchemaViolation::to_string).collect::<Vec<_>>().join("; ")
            }
        },
    }
}

/// Lists what a schema says about values.
fn table(cases: &[(Value, Vec<Value>)]) -> String {
    let mut lines = Vec::new();
    for (schema, values) in cases {
        lines.push(schema.to_string());
        lines.extend(values.iter().map(|value| format!("    {value}  {}", verdict(schema, value))));
    }
    lines.join("\n")
}

fn faults(schema: &Value) -> String {
    let errors = OutputSchema::parse(schema).expect_err("should be refused");
    let lines = errors.iter().map(|error| {
        let help = error.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}: {error}{help}", error.pointer)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn types_and_values() {
    insta::assert_snapshot!(table(&[
        (json!(true), vec![json!(1)]),
        (json!(false), vec![json!(1)]),
        (json!({}), vec![json!(null)]),
        (json!({"type": "integer"}), vec![json!(1), json!(1.0), json!(1.5), json!("1"), json!(u64::MAX), json!(1e300)]),
        (json!({"type": "number"}), vec![json!(1), json!(1.5), json!(true)]),
        (json!({"type": ["string", "null"]}), vec![json!("a"), json!(null), json!([])]),
        (json!({"type": "object"}), vec![json!({}), json!([])]),
        (json!({"type": "boolean"}), vec![json!(false), json!(0)]),
        (json!({"enum": [1, "a", {"b": 1, "a": [2.0]}]}), vec![json!(1.0), json!("a"), json!({"a": [2], "b": 1}), json!("1"), json!(true)]),
        (json!({"const": -0.0}), vec![json!(0), json!(false)]),
        (json!({"const": 9_007_199_254_740_993_i64}), vec![json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64)]),
    ]), @r#"
    true
        1  ok
    false
        1  the value is not allowed
    {}
        null  ok
    {"type":"integer"}
        1  ok
        1.0  ok
        1.5  the value must be `integer`, found `number`
        "1"  the value must be `integer`, found `string`
        18446744073709551615  ok
        1e+300  ok
    {"type":"number"}
        1  ok
        1.5  ok
        true  the value must be `number`, found `boolean`
    {"type":["string","null"]}
        "a"  ok
        null  ok
        []  the value must be `string` or `null`, found `array`
    {"type":"object"}
        {}  ok
        []  the value must be `object`, found `array`
    {"type":"boolean"}
        false  ok
        0  the value must be `boolean`, found `number`
    {"enum":[1,"a",{"b":1,"a":[2.0]}]}
        1.0  ok
        "a"  ok
        {"a":[2],"b":1}  ok
        "1"  the value must be one of `1, "a", {"a":[2],"b":1}`
        true  the value must be one of `1, "a", {"a":[2],"b":1}`
    {"const":-0.0}
        0  ok
        false  the value must be `0`
    {"const":9007199254740993}
        9007199254740993  ok
        9007199254740992  the value must be `9007199254740993`
    "#);
}

#[test]
fn numbers_and_texts() {
    insta::assert_snapshot!(table(&[
        (json!({"minimum": 1, "maximum": 3}), vec![json!(1), json!(3.0), json!(0.5), json!(4), json!("x")]),
        (json!({"exclusiveMinimum": 1, "exclusiveMaximum": 3}), vec![json!(2), json!(1), json!(3.0)]),
        (json!({"minimum": u64::MAX}), vec![json!(u64::MAX), json!(u64::MAX - 1)]),
        (json!({"multipleOf": 3}), vec![json!(9), json!(-3), json!(10), json!(9.0), json!(9.1)]),
        (json!({"multipleOf": 0.01}), vec![json!(19.99), json!(0.3), json!(0.005), json!(0)]),
        (json!({"minLength": 2, "maxLength": 3.0}), vec![json!("ä🦀"), json!("a"), json!("abcd"), json!(1)]),
        (json!({"pattern": "^a+$"}), vec![json!("aa"), json!("ab"), json!(1)]),
        (json!({"pattern": "b"}), vec![json!("abc")]),
        (json!({"format": "email"}), vec![json!("not checked")]),
    ]), @r#"
    {"minimum":1,"maximum":3}
        1  ok
        3.0  ok
        0.5  the value must be at least 1, found 0.5
        4  the value must be at most 3, found 4
        "x"  ok
    {"exclusiveMinimum":1,"exclusiveMaximum":3}
        2  ok
        1  the value must be more than 1, found 1
        3.0  the value must be less than 3, found 3.0
    {"minimum":18446744073709551615}
        18446744073709551615  ok
        18446744073709551614  the value must be at least 18446744073709551615, found 18446744073709551614
    {"multipleOf":3}
        9  ok
        -3  ok
        10  the value must be a multiple of 3, found 10
        9.0  ok
        9.1  the value must be a multiple of 3, found 9.1
    {"multipleOf":0.01}
        19.99  ok
        0.3  ok
        0.005  the value must be a multiple of 0.01, found 0.005
        0  ok
    {"minLength":2,"maxLength":3.0}
        "ä🦀"  ok
        "a"  the value must have at least 2 characters, and has 1
        "abcd"  the value must have at most 3 characters, and has 4
        1  ok
    {"pattern":"^a+$"}
        "aa"  ok
        "ab"  the value does not match the pattern `^a+$`
        1  ok
    {"pattern":"b"}
        "abc"  ok
    {"format":"email"}
        "not checked"  ok
    "#);
}

#[test]
fn lists_and_mappings() {
    insta::assert_snapshot!(table(&[
        (json!({"items": {"type": "integer"}}), vec![json!([1, 2]), json!([1, "a", []]), json!("x")]),
        (json!({"prefixItems": [{"const": 1}, true], "items": false}), vec![json!([1]), json!([1, 2]), json!([2, 2, 3])]),
        (json!({"minItems": 1, "maxItems": 2, "uniqueItems": true}), vec![json!([]), json!([1, 2, 1.0]), json!([1, "1"])]),
        (json!({"uniqueItems": false}), vec![json!([1, 1])]),
        (json!({"uniqueItems": true}), vec![json!([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]), json!([0, false, null, "", []])]),
        (json!({"required": ["a", "b"]}), vec![json!({"a": 1, "b": 2}), json!({"c": 1}), json!([])]),
        (
            json!({"properties": {"a": {"type": "string"}}, "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": false}),
            vec![json!({"a": "t", "x1": 1}), json!({"a": 1, "x/~": "t", "other": 1})],
        ),
        (json!({"additionalProperties": {"type": "integer"}}), vec![json!({"a": 1}), json!({"a": "b"})]),
        (json!({"properties": {"xa": {"maximum": 5}}, "patternProperties": {"x": {"minimum": 3}}}), vec![json!({"xa": 4}), json!({"xa": 2}), json!({"xa": 6})]),
        (json!({"minProperties": 1, "maxProperties": 1}), vec![json!({"a": 1}), json!({}), json!({"a": 1, "b": 2})]),
    ]), @r#"
    {"items":{"type":"integer"}}
        [1,2]  ok
        [1,"a",[]]  `/1` must be `integer`, found `string`; `/2` must be `integer`, found `array`
        "x"  ok
    {"prefixItems":[{"const":1},true],"items":false}
        [1]  ok
        [1,2]  ok
        [2,2,3]  `/0` must be `1`; `/2` is not allowed
    {"minItems":1,"maxItems":2,"uniqueItems":true}
        []  the value must have at least 1 element, and has 0
        [1,2,1.0]  the value must have at most 2 elements, and has 3; the value has the element 2 (counted from 0) twice
        [1,"1"]  ok
    {"uniqueItems":false}
        [1,1]  ok
    {"uniqueItems":true}
        [{"a":1,"b":2},{"b":2.0,"a":1}]  the value has the element 1 (counted from 0) twice
        [0,false,null,"",[]]  ok
    {"required":["a","b"]}
        {"a":1,"b":2}  ok
        {"c":1}  the value must have `a`, `b`
        []  ok
    {"properties":{"a":{"type":"string"}},"patternProperties":{"^x":{"type":"integer"}},"additionalProperties":false}
        {"a":"t","x1":1}  ok
        {"a":1,"x/~":"t","other":1}  `/a` must be `string`, found `number`; `/x~1~0` must be `integer`, found `string`; `/other` is not allowed
    {"additionalProperties":{"type":"integer"}}
        {"a":1}  ok
        {"a":"b"}  `/a` must be `integer`, found `string`
    {"properties":{"xa":{"maximum":5}},"patternProperties":{"x":{"minimum":3}}}
        {"xa":4}  ok
        {"xa":2}  `/xa` must be at least 3, found 2
        {"xa":6}  `/xa` must be at most 5, found 6
    {"minProperties":1,"maxProperties":1}
        {"a":1}  ok
        {}  the value must have at least 1 property, and has 0
        {"a":1,"b":2}  the value must have at most 1 property, and has 2
    "#);
}

#[test]
fn schemas_within_schemas() {
    let tree = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/tree", "title": "a tree",
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "required": ["value"], "properties": {"value": {"$ref": "#/$defs/a~1b%20c"}, "children": {"items": {"$ref": "#"}}}}, "a/b c": {"type": "integer"}},
    });
    insta::assert_snapshot!(table(&[
        (json!({"allOf": [{"minimum": 1}, {"maximum": 3}]}), vec![json!(2), json!(0), json!(5)]),
        (json!({"anyOf": [{"type": "string"}, {"minimum": 5}]}), vec![json!("a"), json!(6), json!(2), json!(null)]),
        (json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}), vec![json!(2), json!(3), json!(6), json!(7)]),
        (json!({"not": {"type": "null"}}), vec![json!(1), json!(null)]),
        (
            json!({"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}, "else": {"required": ["y"]}}),
            vec![json!({"kind": "a", "x": 1}), json!({"kind": "a"}), json!({"kind": "b"})],
        ),
        (json!({"if": true}), vec![json!(1)]),
        (tree, vec![json!({"value": 1, "children": [{"value": 2}]}), json!({"value": 1, "children": [{"value": 2, "children": [{"value": "x"}, {}]}]})]),
        (json!({"properties": {"a": {"$ref": "#/properties/b", "maximum": 5}, "b": {"minimum": 1}}}), vec![json!({"a": 3}), json!({"a": 0}), json!({"a": 9})]),
    ]), @r##"
    {"allOf":[{"minimum":1},{"maximum":3}]}
        2  ok
        0  the value must be at least 1, found 0
        5  the value must be at most 3, found 5
    {"anyOf":[{"type":"string"},{"minimum":5}]}
        "a"  ok
        6  ok
        2  the value fits none of the 2 schemas of `anyOf`
        null  ok
    {"oneOf":[{"multipleOf":2},{"multipleOf":3}]}
        2  ok
        3  ok
        6  the value must fit one of the 2 schemas of `oneOf`, and fits 2
        7  the value must fit one of the 2 schemas of `oneOf`, and fits 0
    {"not":{"type":"null"}}
        1  ok
        null  the value fits the schema of `not`
    {"if":{"properties":{"kind":{"const":"a"}}},"then":{"required":["x"]},"else":{"required":["y"]}}
        {"kind":"a","x":1}  ok
        {"kind":"a"}  the value must have `x`
        {"kind":"b"}  the value must have `y`
    {"if":true}
        1  ok
    {"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/tree","title":"a tree","$ref":"#/$defs/node","$defs":{"node":{"type":"object","required":["value"],"properties":{"value":{"$ref":"#/$defs/a~1b%20c"},"children":{"items":{"$ref":"#"}}}},"a/b c":{"type":"integer"}}}
        {"value":1,"children":[{"value":2}]}  ok
        {"value":1,"children":[{"value":2,"children":[{"value":"x"},{}]}]}  `/children/0/children/0/value` must be `integer`, found `string`; `/children/0/children/1` must have `value`
    {"properties":{"a":{"$ref":"#/properties/b","maximum":5},"b":{"minimum":1}}}
        {"a":3}  ok
        {"a":0}  `/a` must be at least 1, found 0
        {"a":9}  `/a` must be at most 5, found 9
    "##);
}

#[test]
fn what_cannot_be_checked_is_refused_with_its_place() {
    insta::assert_snapshot!(faults(&json!({
        "requird": ["a"], "dependentSchemas": {}, "minItems": -1, "maxLength": "x", "type": "text", "enum": [], "required": [1],
        "pattern": "(?=x)", "multipleOf": 0, "uniqueItems": 1, "minimum": "1",
        "items": [true], "prefixItems": [], "properties": [], "allOf": {}, "anyOf": [1, {"$id": "x"}], "then": true, "not": 7,
        "patternProperties": {"[": true, "x": null},
        "$defs": {"a": {"$ref": "https://example.com/x"}, "b": {"$ref": "#anchor"}, "c": {"$ref": "#/$defs/missing"}, "d": {"$ref": 1}, "e": {"$ref": "#/type"}},
    })), @"
    /requird: `requird` is no keyword that can be checked here (did you mean `required`?)
    /dependentSchemas: `dependentSchemas` is no keyword that can be checked here (what it demands would not be checked; leave it out)
    /minItems: `minItems` must be a whole number and not negative
    /maxLength: `maxLength` must be a whole number and not negative
    /type: `type` must be one of `null`, `boolean`, `object`, `array`, `number`, `integer`, `string`, or a list of them
    /enum: `enum` must be a list with at least one value
    /required: `required` must be a list of texts
    /pattern: `pattern` is not a pattern that can be used: look-around, including look-ahead and look-behind, is not supported
    /multipleOf: `multipleOf` must be more than 0
    /uniqueItems: `uniqueItems` must be `true` or `false`
    /minimum: `minimum` must be a number
    /items: `items` must be one schema (write `prefixItems` for one schema per element)
    /properties: `properties` must be a mapping of schemas
    /patternProperties/[: `[` is not a pattern that can be used: unclosed character class
    /allOf: `allOf` must be a list with at least one schema
    /then: `then` means nothing without `if`
    /patternProperties/x: `x` must be a schema: a mapping, `true` or `false`
    /$defs/a/$ref: `https://example.com/x` is outside of this schema, and nothing is fetched (put it into `$defs` and write `#/$defs/NAME`)
    /$defs/b/$ref: `#anchor` is outside of this schema, and nothing is fetched (put it into `$defs` and write `#/$defs/NAME`)
    /$defs/c/$ref: there is nothing at `#/$defs/missing`
    /$defs/d/$ref: `$ref` must be text
    /anyOf/0: each element of `anyOf` must be a schema: a mapping, `true` or `false`
    /anyOf/1/$id: `$id` can only stand at the top of a schema
    /not: `not` must be a schema: a mapping, `true` or `false`
    /type: `type` must be a schema: a mapping, `true` or `false`
    ");
    insta::assert_snapshot!(faults(&json!("text")), @": this must be a schema: a mapping, `true` or `false`");
    insta::assert_snapshot!(faults(&json!({"pattern": "x{1000}{1000}{1000}"})), @"/pattern: `pattern` is too large a pattern");
}

#[test]
fn a_schema_that_only_asks_itself_is_refused() {
    insta::assert_snapshot!(faults(&json!({"$ref": "#"})), @": this schema refers to itself without going into the value, so it has no end");
    let around = json!({"$defs": {
        "a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/b"}]},
        "b": {"not": {"$ref": "#/$defs/a"}},
        "before": {"$ref": "#/$defs/a"},
    }});
    insta::assert_snapshot!(faults(&around), @"/$defs/a: this schema refers to itself without going into the value, so it has no end");
    let down = json!({"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}}]});
    assert_eq!(verdict(&down, &json!([null, [[]]])), "ok");
}

#[test]
fn no_schema_and_no_value_can_make_a_check_run_away() {
    let mut definitions = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"oneOf": [next, next, next]}));
    }
    definitions.insert("d60".to_owned(), json!(true));
    let wide = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    let Err(violations) = check::check(&parse::rules(&wide).unwrap(), &json!(1), 50_000) else {
        panic!("should be given up");
    };
    assert_eq!(violations.len(), 1);
    insta::assert_snapshot!(violations[0], @"the value takes too long to check against this schema");
    // Long chains of references are read without recursion.
    let mut chain = serde_json::Map::new();
    for n in 0..20_000 {
        chain.insert(format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)}));
    }
    chain.insert("d20000".to_owned(), json!(true));
    let long = json!({"$ref": "#/$defs/d0", "$defs": chain});
    insta::assert_snapshot!(verdict(&long, &json!(1)), @"the value is nested too deeply to be checked against this schema");
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    assert_eq!(verdict(&json!({"items": {"$ref": "#"}}), &deep), "ok");
    let many = json!(vec!["x"; 100_000]);
    let Err(violations) = OutputSchema::parse(&json!({"items": false})).unwrap().validate(&many)
    else {
        panic!("should be refused");
    };
    assert_eq!(violations.len(), 20);
}

#[test]
fn a_schema_keeps_what_was_written() {
    let source = json!({"type": "object", "description": "d"});
    let schema = OutputSchema::parse(&source).unwrap();
    assert_eq!(schema.source(), &source);
    assert_eq!(schema, schema.clone());
    assert_ne!(schema, OutputSchema::parse(&json!({"type": "object"})).unwrap());
    insta::assert_snapshot!(format!("{schema:?}"), @r#"Schema({"type":"object","description":"d"})"#);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        (-3_i64..4).prop_map(|n| json!(f64::from(i32::try_from(n).unwrap()) / 2.0)),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// Schemas that can be used.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec!["null", "object", "array", "number", "integer", "string"])
            .prop_map(|name| json!({"type": name})),
        (-2_i64..3).prop_map(|n| json!({"minimum": n})),
        (0_usize..3).prop_map(|n| json!({"minLength": n, "maxItems": n, "minProperties": n})),
        any_value().prop_map(|value| json!({"const": value})),
        Just(json!({"uniqueItems": true, "pattern": "a", "required": ["a"]})),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            list.clone().prop_map(|all| json!({"allOf": all})),
            list.clone().prop_map(|all| json!({"anyOf": all})),
            list.clone().prop_map(|all| json!({"oneOf": all})),
            list.prop_map(|all| json!({"prefixItems": all})),
            inner.clone().prop_map(|one| json!({"not": one})),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"properties": {"a": a}, "additionalProperties": b})),
            inner.prop_map(|one| json!({"items": one})),
        ]
    })
}

fn fits(schema: &Value, value: &Value) -> bool {
    OutputSchema::parse(schema).unwrap().validate(value).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schemas_follow_logic(a in any_schema(), b in any_schema(), value in any_value()) {
        let (in_a, in_b) = (fits(&a, &value), fits(&b, &value));
        prop_assert_eq!(fits(&json!({"not": a}), &value), !in_a);
        prop_assert_eq!(fits(&json!({"allOf": [a, b]}), &value), in_a && in_b);
        prop_assert_eq!(fits(&json!({"anyOf": [a, b]}), &value), in_a || in_b);
        prop_assert_eq!(fits(&json!({"oneOf": [a, b]}), &value), in_a != in_b);
        prop_assert_eq!(fits(&json!({"if": a, "then": b, "else": false}), &value), in_a && in_b);
        prop_assert_eq!(fits(&json!({"$ref": "#/$defs/a", "$defs": {"a": a}}), &value), in_a);
        prop_assert_eq!(fits(&json!({"items": a}), &json!([value, value])), in_a);
        prop_assert_eq!(fits(&json!({"properties": {"x/y": a}}), &json!({"x/y": value})), in_a);
    }

    #[test]
    fn a_constant_is_only_itself(a in any_value(), b in any_value()) {
        prop_assert_eq!(fits(&json!({"const": a}), &a), true);
        prop_assert_eq!(fits(&json!({"const": a}), &b), fits(&json!({"enum": [b]}), &a));
        prop_assert_eq!(fits(&json!({"uniqueItems": true}), &json!([a, b])), !fits(&json!({"const": a}), &b));
    }

    #[test]
    fn reading_anything_as_a_schema_never_panics(schema in any_schema(), value in any_value(), keyword in prop::sample::select([rule::SIMPLE, rule::HOLDERS, rule::ANNOTATIONS].concat())) {
        let odd = json!({keyword: value, "$defs": {"a": schema}});
        if let Ok(schema) = OutputSchema::parse(&odd) {
            schema.validate(&value).ok();
        }
    }
}
