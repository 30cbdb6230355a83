"""What a surface chooses for one session counts over files and environment, and for that session alone."""

from __future__ import annotations

from pathlib import Path

from tests.support.engines import bench
from tests.support.replies import say


def offered(request) -> set[str]:
    return {tool["function"]["name"] for tool in request.body.get("tools", ())}


async def test_the_settings_of_one_session_count_over_those_of_the_home(tmp_path: Path):
    async with bench(tmp_path, lambda request: say("ok")) as each:
        each.config("tools: {enabled: [file, todo]}\n")
        await each.turn("hello", settings={"tools": {"enabled": ["todo"]}})
        await each.turn("hello")
        first, second = (offered(request) for request in each.server.requests)
        assert "write_file" not in first and "write_file" in second and first < second


async def test_a_stricter_mode_stays_with_the_session_and_a_looser_one_does_not(tmp_path: Path):
    async with bench(tmp_path, lambda request: say("ok")) as each:
        async with each.engine(approve=None) as engine:
            await engine.run("hello")
            session = engine.session.id
            await engine.set_mode("yolo")
        for chosen, left in (("plan", "normal"), ("careful", "plan"), ("all", "careful"), ("plan", "normal")):
            async with each.engine(resume=session, approve=None) as engine:
                assert engine.mode == left
                await engine.set_mode(chosen)
        async with each.engine(resume=session, approve="normal") as engine:
            assert engine.mode == "normal"
        await each.turn("again", resume=session, approve=None)
        assert [message["role"] for message in each.server.requests[-1].body["messages"]][1:] == [
            *("user", "assistant", "user")
        ]


async def test_a_mode_that_cannot_be_stored_holds_and_the_person_is_told(tmp_path: Path):
    async with bench(tmp_path, lambda request: say("ok")) as each, each.engine(approve=None) as engine:
        await engine.run("hello")
        heard: list[object] = []
        engine.stream.subscribe(heard.append)
        await engine.session.store.database.write(
            lambda c: c.execute(
                "CREATE TRIGGER full BEFORE INSERT ON nodes BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
        )
        assert await engine.set_mode("plan") == engine.mode == "plan"
        assert [type(event).__name__ for event in heard] == ["ModeChanged", "Noticed"]
        assert "not when the session is continued" in heard[1].text


async def test_a_wrong_setting_of_one_session_is_told_and_left_out(tmp_path: Path):
    async with bench(tmp_path, lambda request: say("ok")) as each:
        ended = await each.turn("hello", settings={"budget": {"session": {"tokens": -1}}})
        assert ended.outcome == "done"
        assert any("this session" in event.text for event in each.events if event.type == "notice")
