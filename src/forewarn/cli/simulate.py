"""`simulate`: run a simulator until its playlist ends, and return the exit status."""

import asyncio
import contextlib
import logging
import math
import os
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarn.cli import browsers, files, junit_file, link_local, output, replay
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.environ import with_variables
from forewarn.cli.screen import Lines, Screen
from forewarn.cli.stopping import BY_SIGNAL, until_signal
from forewarn.cli.times import duration
from forewarn.fleet.file import read_fleet
from forewarn.fleet.validators import is_loopback, name_fault, split_listener
from forewarn.problems import listed
from forewarn.protocol.errors import ForewarnError
from forewarn.service import open_files
from forewarn.service.listening import url_of
from forewarn.service.loops import new_loop
from forewarn.sim import fleets
from forewarn.sim.choices import choices_router
from forewarn.sim.news import Reporter, What
from forewarn.sim.playlist import (
    TOGETHER,
    WAIT,
    Player,
    Playlist,
    PlayOptions,
    rounds_of,
)
from forewarn.sim.positions import ADMIN, Addresses, Places, parse_places
from forewarn.sim.profiles import Profile
from forewarn.sim.scenario import builtin, casting, demands, rehearsal
from forewarn.sim.scenario.file import is_file, load_scenario
from forewarn.sim.scenario.model import Expected, Scenario
from forewarn.sim.sim_server import SimServer
from forewarn.sim.simulator import SPEED, Simulator, Terms

VARIABLES = "FOREWARN_SIMULATE_"
"""Prefix of the variables that set options."""

SPEED_MIN = 0.001
SPEED_MAX = 1_000_000
"""Limits of the speed, as of the setting `timing.speed`."""


def simulate(call: Call) -> int:
    """Serve simulated VMs; play scenarios to them."""
    call = with_variables(call, VARIABLES, without=("list", "show"))
    if call.flag("list"):
        return _list(is_json=call.flag("json"))
    if name := call.text("show"):
        with _usage():
            text = files.read_text(name)[0] if is_file(name) else builtin.text(name)
        print(text, end="")
        return Exit.DONE
    with _quiet():
        return _simulate(call)


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Suppress log lines about clients, because the news reports them."""
    logger = logging.getLogger("forewarn.metadata")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _simulate(call: Call) -> int:
    open_files.allow()
    if netns := call.text("netns"):
        link_local.enter(netns, sys.argv[1:], call.environ)
    played = [call.text("replay")] if call.text("replay") else call.texts("scenario")
    names = [name for name in played if name != TOGETHER]
    with junit_file.report(call.text("junit"), names) as report:
        if not call.text("replay"):
            return _play(call, report)
        return replay.replay(
            call,
            report,
            speed=_speed(call.text("speed") or "1") or 1.0,
            vms=_vms(call.text("vms")) or 1,
        )


def _play(call: Call, report: junit_file.Report) -> int:
    if call.flag("exact"):
        raise CommandError(Exit.USAGE, "--exact is only valid with --replay")
    with _usage():
        options, playlist = _options(call), _playlist(call)
        _check_fleets(options, playlist)
        playlist = replace(playlist, rounds=tuple(map(options.cast, playlist.rounds)))
        addresses = _addresses(call)
        first = playlist.rounds[0] if playlist.rounds else ()
        terms = options.terms(first)
        places = options.places(playlist.rounds)
    with contextlib.ExitStack() as undone:
        if call.flag("link_local"):
            undone.enter_context(link_local.served(call.environ))
        else:
            link_local.tidy(call.environ)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            try:
                return runner.run(
                    _run(
                        call,
                        report,
                        terms=terms,
                        addresses=addresses,
                        places=places,
                        options=options,
                        playlist=playlist,
                    )
                )
            except ForewarnError as error:
                raise CommandError(
                    Exit.FAILED, error.message, hint=error.hint
                ) from error


async def _run(
    call: Call,
    report: junit_file.Report,
    *,
    terms: Terms,
    addresses: Addresses,
    places: int,
    options: PlayOptions,
    playlist: Playlist,
) -> int:
    with _usage():
        simulator = Simulator(terms, addresses, places=places)
    voice = _voice(call)
    reporter = Reporter(voice.show, tells_deviations=options.profile.tells)
    simulator.on_stage.append(lambda stage: _follow(simulator, reporter, stage))
    simulator.routers.append(choices_router(simulator, reporter, options))
    simulator.on_served.append(reporter.serve)
    simulator.on_publish.append(reporter.publish)
    player = Player(simulator, reporter, options=options, playlist=playlist)
    stopped = until_signal()
    await simulator.start()
    try:
        _greet(simulator, reporter, speed=options.speed_text(simulator.terms))
        if call.flag("open"):
            _open(simulator, reporter)
        voice.begin(simulator)
        status = await _until_over(simulator, player, playlist, stopped)
    except ForewarnError as error:
        # Earlier findings count.
        player.cut_short(error.message)
        report.write(player.results)
        raise
    finally:
        await voice.end()
        await simulator.stop()
    report.write(player.results)
    _conclude(player, reporter, status)
    return status


def _follow(simulator: Simulator, reporter: Reporter, stage: SimServer) -> None:
    """Report a new world. The page can begin one with another profile."""
    reporter.tells_deviations = simulator.terms.profile.tells
    reporter.follow(stage)


async def _until_over(
    simulator: Simulator,
    player: Player,
    playlist: Playlist,
    stopped: "asyncio.Future[int]",
) -> int:
    """Return the status when the playlist ends or a signal arrives."""
    playing = asyncio.create_task(player.play()) if playlist.rounds else None
    broken = asyncio.create_task(simulator.wait_broken())
    waited: set[asyncio.Future[Any]] = {stopped, broken}
    if playing is not None:
        waited.add(playing)
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if playing is not None and playing.done() and playlist.stays:
        playing.result()
        await asyncio.wait({stopped, broken}, return_when=asyncio.FIRST_COMPLETED)
    is_cut = playing is not None and not playing.done()
    # Cancel both at once: a world that is interrupted at its start looks broken.
    ending = [task for task in (playing, broken) if task and not task.done()]
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)
    if broken.done() and not broken.cancelled():
        raise broken.result()
    if playing is not None and not playing.cancelled():
        playing.result()
    if is_cut:
        player.cut_short()
    if is_cut and not playlist.loops:
        return BY_SIGNAL + stopped.result()
    return Exit.DONE if player.passed else Exit.FAILED


# Output


def _voice(call: Call) -> Lines:
    is_json = call.flag("json")
    if is_json or call.flag("plain") or not sys.stdout.isatty():
        return Lines(is_json=is_json)
    return Screen()


def _greet(simulator: Simulator, reporter: Reporter, *, speed: str) -> None:
    """Report the address of the operator API, and that the simulator is ready."""
    if simulator.admin_address is not None:
        where = url_of(simulator.admin_address)
        reporter.say(
            What.SERVING, f"operators at {where} (FOREWARN_URL={where})", url=where
        )
    reporter.say(What.READY, f"ready, {speed}", speed=simulator.terms.setup.speed)


def _open(simulator: Simulator, reporter: Reporter) -> None:
    """Open the page of the simulation, or report its address."""
    assert simulator.admin_address is not None
    page = url_of(simulator.admin_address) + browsers.PAGE
    verb = (
        "opened"
        if browsers.show(page, os.environ, seconds=0)
        else "no browser here: open"
    )
    reporter.say(What.SERVING, f"{verb} {page}", url=page)


def _conclude(player: Player, reporter: Reporter, status: int) -> None:
    parts = [
        f"scenarios {len(player.results)}, failed {player.failures}"
        if player.results
        else "ended"
    ]
    if left := player.unjudged:
        parts.append(f"not judged {left}")
    if left := player.not_over:
        parts.append(f"not ended {left}")
    if reporter.deviations:
        parts.append(f"deviations {reporter.deviations}")
    if status > BY_SIGNAL:
        parts.append("interrupted by a signal")
    reporter.say(
        What.END,
        ", ".join(parts),
        status=int(status),
        deviations=reporter.deviations,
        failed=player.failures,
    )


def _list(*, is_json: bool) -> int:
    scenarios = builtin.scenarios()
    if is_json:
        output.document([_listed(scenario) for scenario in scenarios])
        return Exit.DONE
    for scenario in scenarios:
        listed = _listed(scenario)
        output.line(listed["name"])
        output.line(f"  {listed['description']}")
        if scenario.own_speed is not None:
            output.line(f"  default speed {scenario.own_speed:g}")
        if listed["aliases"]:
            output.line(f"  also: {', '.join(listed['aliases'])}")
        for line in listed["clients"]:
            output.line(f"  expects: {line}")
        for line in listed["timeline"]:
            output.line(f"    {line}")
        output.line()
    return Exit.DONE


def _listed(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "aliases": [alias.name for alias in scenario.aliases],
        "description": scenario.description,
        "speed": scenario.own_speed or SPEED,
        "clients": [demands.summary(client) for client in scenario.clients],
        "timeline": rehearsal.lines_of(rehearsal.play(scenario)),
    }


# Arguments


@contextlib.contextmanager
def _usage() -> Generator[None]:
    """Report problems of arguments and files as invalid usage."""
    try:
        yield
    except ForewarnError as error:
        lines = error.message.splitlines()
        raise CommandError(
            Exit.USAGE,
            lines[-1] if len(lines) == 1 else "nothing was started",
            hint=error.hint,
            lines=lines if len(lines) > 1 else (),
        ) from error


def _options(call: Call) -> PlayOptions:
    fleet = ""
    if name := call.text("fleet"):
        fleet, shown = files.read_text(name)
        if not read_fleet(fleet, name=shown).vms:
            raise CommandError(
                Exit.USAGE,
                f"the fleet file {shown} has no VMs",
                hint="Add [[host]] and [[vm]] tables, or remove --fleet for the default VMs.",
            )
    return PlayOptions(
        vms=_vms(call.text("vms")),
        fleet=fleet,
        speed=_speed(call.text("speed")),
        profile=Profile(call.text("profile") or Profile.LENIENT.value),
        faults=replay.faults_of(call),
        names=_names(call),
        environ=call.environ,
    )


def _names(call: Call) -> tuple[str, ...]:
    """Return the names from --name."""
    names = call.texts("name")
    if names and call.flag("replay"):
        raise CommandError(Exit.USAGE, "--name cannot be combined with --replay")
    casting.check_names(names)
    for name in names:
        if wrong := name_fault(name):
            raise CommandError(Exit.USAGE, f"--name: {wrong}")
    vms = _vms(call.text("vms"))
    if vms is not None and vms < len(names):
        raise CommandError(
            Exit.USAGE,
            f"--vms {vms} leaves no VM for the name {names[vms]!r}",
            hint=f"Use --vms {len(names)}, or remove --vms.",
        )
    return tuple(names)


def _check_fleets(options: PlayOptions, playlist: Playlist) -> None:
    """Refuse options for a fleet that would not be used."""
    if options.vms and options.fleet:
        raise CommandError(
            Exit.USAGE,
            "--vms cannot be combined with --fleet",
            hint="Remove one of them.",
        )
    played = [scenario for together in playlist.rounds for scenario in together]
    if options.vms and played and all(scenario.fleet.text for scenario in played):
        names = {scenario.name: scenario for scenario in played}
        brings = "has its" if len(names) == 1 else "have their"
        raise CommandError(
            Exit.USAGE,
            f"--vms has no effect: {listed(names)} {brings} own fleet",
            hint="Remove --vms. Use --show to print a scenario with its fleet, and change it.",
        )


def _playlist(call: Call) -> Playlist:
    # A scenario has a name; its file has a suffix or a directory.
    rounds = [
        tuple(
            load_scenario(Path(word)) if is_file(word) else builtin.find(word)
            for word in scenario_names
        )
        for scenario_names in rounds_of(call.texts("scenario"))
    ]
    if call.flag("loop") and not rounds:
        raise CommandError(Exit.USAGE, "--loop needs a scenario")
    return Playlist(
        rounds=tuple(rounds),
        expected=Expected(call.text("expect") or Expected.SCENARIO.value),
        loops=call.flag("loop"),
        stays=call.flag("stay"),
        wait=WAIT if (wait := duration(call, "wait")) is None else wait,
        start_after=duration(call, "start_after") or 0,
        timeout=duration(call, "timeout", is_positive=True),
    )


def _addresses(call: Call) -> Addresses:
    listen, admin = call.text("listen"), call.text("admin")
    address = split_listener(admin) if admin else ADMIN
    if address is None:
        raise CommandError(
            Exit.USAGE,
            f"--admin: {admin!r} is not a valid address",
            hint="Use HOST:PORT, such as 127.0.0.1:8200.",
        )
    if not is_loopback(address[0]):
        raise CommandError(
            Exit.USAGE,
            f"--admin: {address[0]} can be reached from other machines, and a simulator "
            "has no tokens",
            hint="Use 127.0.0.1, and connect through ssh or the network of the container.",
        )
    return Addresses(
        vms=parse_places(listen) if listen else Places(),
        vms_may_move=not listen,
        first=link_local.ADDRESS if call.flag("link_local") else None,
        admin=address,
        admin_may_move=not admin,
    )


def _vms(text: str) -> int | None:
    if not text:
        return None
    if (
        not (text.isascii() and text.isdecimal())
        or not 1 <= int(text) <= fleets.VMS_MAX
    ):
        raise CommandError(
            Exit.USAGE, f"--vms: must be 1 to {fleets.VMS_MAX}, not {text!r}"
        )
    return int(text)


def _speed(text: str) -> float | None:
    if not text:
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not SPEED_MIN <= speed <= SPEED_MAX:
        raise CommandError(
            Exit.USAGE,
            f"--speed: must be {SPEED_MIN} to {SPEED_MAX}, not {text!r}",
        )
    return speed
