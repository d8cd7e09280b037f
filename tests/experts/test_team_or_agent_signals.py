# ruff: noqa: RUF001 - marks of other scripts
from __future__ import annotations

import pytest

from teamwright.experts.team_or_agent import READ, Complexity, Signal, estimate_complexity

SIMPLE = {
    "English": "What is the capital of France?",
    "German": "Was ist die Hauptstadt von Frankreich?",
    "Spanish": "¿Cuál es la capital de Francia?",
    "Chinese": "法国的首都是哪里？",
    "Japanese": "フランスの首都はどこですか。",
    "Arabic": "ما هي عاصمة فرنسا؟",
}
UNSURE = {
    "English": "Compare two architectures for our billing service, estimate the cost of the migration, review the"
    " risks, and write a report for the management.",
    "German": "Vergleiche zwei Architekturen für unseren Abrechnungsdienst, schätze die Kosten der Umstellung, prüfe"
    " die Risiken, und schreibe einen Bericht für die Leitung.",
    "Spanish": "Compara dos arquitecturas para nuestro servicio de facturación, estima el coste de la migración, revisa"
    " los riesgos, y redacta un informe para la dirección.",
    "Chinese": "请比较我们计费服务的两种架构，估算迁移成本，审查安全和隐私风险，并为管理层撰写一份报告。",
    "Japanese": "請求サービスの二つの構成を比較し、移行費用を見積もり、リスクを確認し、"
    "経営陣向けの報告書を書いてください。",
    "Arabic": "قارن بين بنيتين لخدمة الفوترة لدينا، وقدّر تكلفة الترحيل، وراجع المخاطر، واكتب تقريرًا للإدارة.",
}
PARTS = {
    "English": "\n- the data model\n- the prices\n- the contract: is it valid? who signs?\n",
    "German": "\n1. das Datenmodell\n2. die Preise\n3. der Vertrag: gilt er? wer unterschreibt?\n",
    "Spanish": "\n1) el modelo de datos\n2) los precios\n3) el contrato: ¿es válido? ¿quién firma?\n",
    "Chinese": "\n一、数据模型\n二、价格\n三、合同：是否有效？谁签字？\n",
    "Japanese": "①データモデル②価格③契約：有効ですか？誰が署名しますか？",
    "Arabic": "\n١) نموذج البيانات\n٢) الأسعار\n٣) العقد: هل هو صالح؟ من يوقّعه؟\n",
}
LANGUAGES = tuple(SIMPLE)


@pytest.mark.parametrize("task", [*SIMPLE.values(), "Translate 'hello' into French.", "Write a haiku about rain.", ""])
def test_a_simple_task_is_enough_for_one_in_every_language(task: str) -> None:
    assert estimate_complexity(task).is_enough_for_one


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_long_sentence_decides_nothing_in_any_language(language: str) -> None:
    found = estimate_complexity(UNSURE[language])
    assert not found.is_enough_for_one, found
    assert not found.suggests_team, found
    assert {signal.name for signal in found.signals} == {"length", "clauses"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_parts_and_several_questions_suggest_a_team_in_every_language(language: str) -> None:
    found = estimate_complexity(UNSURE[language] + PARTS[language])
    assert found.suggests_team, found
    counts = {signal.name: signal.count for signal in found.signals}
    assert (counts["parts"], counts["questions"]) == (3, 2)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_task_weighs_about_the_same_in_every_language(language: str) -> None:
    english = estimate_complexity(UNSURE["English"]).score
    assert abs(estimate_complexity(UNSURE[language]).score - english) <= 0.2


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_is_never_too_long_for_one_by_its_length_alone(language: str) -> None:
    assert not estimate_complexity(UNSURE[language] * 50).suggests_team


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Compare report.csv and ./src/main.py with https://example.org/a?b=c.", 3),
        ("分析report.csv和sales.csv，写总结。", 2),
        ("Prüfe die Übersicht.pdf mit `git log` und `git log`.", 2),
        ("Pay 3.14 e.g. to a Ph.D. and/or at 10:30.", 0),
    ],
)
def test_files_addresses_and_code_are_counted_once_each(text: str, count: int) -> None:
    found = {signal.name: signal.count for signal in estimate_complexity(text).signals}
    assert found.get("files and tools", 0) == count


@pytest.mark.parametrize(("score", "team"), [(0.7, False), (0.70001, True), (1.0, True), (0.0, False)])
def test_a_team_is_suggested_strictly_above_the_threshold(score: float, team: bool) -> None:
    assert Complexity(score).suggests_team is team


@pytest.mark.parametrize(("score", "one"), [(0.35, True), (0.36, False)])
def test_up_to_the_lower_threshold_one_is_enough(score: float, one: bool) -> None:
    assert Complexity(score).is_enough_for_one is one


def test_a_score_is_the_sum_of_its_signals_between_0_and_1() -> None:
    hard = UNSURE["English"] + PARTS["English"]
    for task in (hard, hard * 20, "What is it?", "x " * 5000, "- `a`\n" * READ):
        found = estimate_complexity(task)
        assert found.score == round(min(1.0, sum(one.adds for one in found.signals)), 4)


def test_a_complexity_says_what_it_is_made_of() -> None:
    assert str(Complexity(0.26, (Signal("clauses", 3, 0.26),))) == "0.26 (clauses 3 (+0.26))"
    assert str(Complexity(0.0)) == "0.00"
