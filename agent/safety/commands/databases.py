"""Database clients: queries that only read are told from those that change."""

from __future__ import annotations

import re
from dataclasses import replace

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.shell.marks import UNKNOWN, literal, words

READS = fine("only reads a database")
CHANGES = "changes a database, or may do so"

_READING = re.compile(
    r"(?:select|show|explain|describe|desc|with|values|table|use|\.\w+|\\\w+\+?)\b", re.IGNORECASE
)
_DANGEROUS = re.compile(
    r"\b(?:insert|update|delete|drop|alter|create|truncate|grant|revoke|copy|call|do|execute|vacuum"
    r"|into|attach|detach|replace|merge|reindex"
    r"|cluster|lock|listen|notify|reset|rename|load|import|export|set|kill|flush|purge|optimize"
    r"|repair|install|analyze|handler|begin|commit|prepare"
    r"|lo_\w+|pg_(?!(?:stat(?:io)?_(?:user|all|sys|activity|database|statements|replication)(?!\w*reset)\w*|class"
    r"|tables|indexes|views|database|namespace|size_pretty|(?:total_)?relation_size|table_size"
    r"|database_size|locks|constraint|attribute|index|extension|type)\b)\w+|dblink\w*|load_file|load_extension|writefile|readfile|edit|fsdir|sys_\w+|xp_\w+"
    r"|sleep|benchmark|nextval|setval|current_setting|set_config|query_to_xml|pragma)\b",
    re.IGNORECASE,
)
_META = re.compile(
    r"\\(?:d\S*(?: [\w.\"*?]+)?|l\+?|z|conninfo|q|x|timing|pset.*|echo .*|\?)"
    r"|\.(?:tables?|schema|databases|indexes|indices|headers?|mode|width|show|dbinfo|help|quit|exit|stats|fullschema|dump)\b.*",
    re.IGNORECASE,
)


def only_reads(text: str) -> bool:
    """Whether every statement of an SQL text only reads."""
    if UNKNOWN in text:
        return False
    for statement in re.split(r"[;\n]", _bare(literal(text))):
        statement = statement.strip().removesuffix("\\G")
        if not statement or _META.fullmatch(statement):
            continue
        if statement.startswith((".", "\\")) or "\\" in statement or ("`" in statement and "|" in statement):
            return False
        if _PRAGMA.fullmatch(statement):
            continue
        if _DANGEROUS.search(_EXPLAIN.sub("", _bare(statement))):
            return False
    first = literal(text).strip()
    return bool(first) and any((_READING.match(first), _META.fullmatch(first), _PRAGMA.match(first)))


_PRAGMA = re.compile(
    r"pragma\s+(?:table_x?info|index_list|index_x?info|foreign_key_list|database_list|integrity_check"
    r"|quick_check|compile_options|page_count|schema_version|user_version|journal_mode)"
    r"\s*(?:\(\s*[\w\"']+\s*\))?\s*(?:;|$)",
    re.IGNORECASE,
)
_EXPLAIN = re.compile(
    r"^explain\s+(?:analyze\s+|verbose\s+|\([\w\s,]*\)\s*)+(?=select\b|with\b)", re.IGNORECASE
)


def _bare(statement: str) -> str:
    """A statement without the texts in quotes, which run nothing; as it is when they do not end."""
    unclear = ('"', "`", "--", "/*", "$$", "\\", "#")
    if statement.count("'") % 2 or any(mark in statement for mark in unclear):
        return statement
    return re.sub(r"'[^']*'", "''", statement)


def _judged(call: Call, queries: list[str]) -> Opinion:
    if not queries:
        return ask("opens a database for commands that are not known here")
    return READS if all(only_reads(query) for query in queries) else ask(CHANGES)


def sql(call: Call) -> Opinion:
    """psql, mysql, mariadb: queries of `-c` and `-e`, or standard input."""
    if call.flag("--version", "-V", "--help"):
        return READS
    if call.flag(
        "-f",
        "--file",
        "-o",
        "--output",
        "-L",
        "--log-file",
        "--tee",
        "--pager",
        "--init-command",
        "--local-infile",
        "-v",
        "--set",
        "--variable",
        "--plugin-dir",
        "--defaults-file",
    ):
        return ask("runs a file of commands, or writes a file")
    if call.name == "psql" and call.flag("-l", "--list"):
        return READS
    short, long = ("c", "command") if call.name in ("psql", "cockroach") else ("e", "execute")
    queries = _values(call, short, long)
    return _judged(call, queries or list(call.stdin or ()))


def sqlite(call: Call) -> Opinion:
    if call.flag("--version", "-version", "-help"):
        return READS
    if call.flag("-init", "-cmd", "-A", "--init", "--cmd"):
        return ask("runs a file of commands")
    if call.name == "duckdb" and (queries := _values(call, "c", "cmd")):
        texts = [text for query in queries for text in re.findall(r"'([^']*)'", literal(query))]
        if any("://" in text for text in texts):
            return ask("reaches the network")
        return call.revealed(texts) or _judged(call, queries)
    operands = call.operands()
    if not operands or UNKNOWN in operands[0]:
        return ask("opens a database that is not known here")
    if opinion := call.revealed(operands[:1]):
        return opinion
    return _judged(call, operands[1:] or list(call.stdin or ()))


_REDIS_READS = re.compile(
    r"get|mget|keys|scan|[hsz]scan|info|ping|ttl|pttl|type|exists|strlen|dbsize|llen|lrange|lindex"
    r"|hget|hgetall|hkeys|hvals|hlen|hmget|hexists"
    r"|scard|smembers|sismember|zcard|zrange|zscore|zrank|zcount|xlen|xrange|xinfo|time|memory|object"
    r"|randomkey|getrange|echo|command|lastsave|role",
    re.IGNORECASE,
)


_REDIS_LOOKS = ("--scan", "--bigkeys", "--memkeys", "--latency", "--stat", "--version", "-v")


def redis(call: Call) -> Opinion:
    if call.flag("--eval", "--pipe", "--rdb", "-x", "--functions-rdb"):
        return ask(CHANGES)
    operands = call.operands("hpnaur")
    if (option := call.flag(*_REDIS_LOOKS)) is not None:
        # Behind a command it belongs to that.
        before = replace(call, arguments=call.arguments[: call.arguments.index(option)])
        if not before.operands("hpnaur"):
            return READS
    if not operands:
        return ask("opens a database for commands that are not known here")
    return READS if _REDIS_READS.fullmatch(operands[0]) else ask(CHANGES)


_MONGO_READS = re.compile(
    r"\s*(?:db\.)?(?:\w+\.)?(?:find|findOne|count|countDocuments|estimatedDocumentCount|distinct"
    r"|stats|getIndexes|explain|version|getCollectionNames"
    r"|runCommand\(\{\s*ping:\s*1\s*\}|serverStatus)\((?:[\w\s:'\",.{}\[\]$-]*)\)?(?:\.(?:count|limit"
    r"|sort|pretty|skip|toArray)\([\w\s:'\",{}-]*\))*\s*;?\s*"
    r"|show (?:dbs|collections|users|databases)"
)


def mongo(call: Call) -> Opinion:
    queries = _values(call, "", "eval")
    writes = any(mark in query for query in queries for mark in ("$where", "$function", "$out", "$merge"))
    known = all(UNKNOWN not in query and _MONGO_READS.fullmatch(literal(query)) for query in queries)
    if queries and known and not writes:
        return READS
    return ask(CHANGES)


def _values(call: Call, short: str, long: str) -> list[str]:
    """The values of an option that may be given several times; `short` may be empty."""
    found: list[str] = []
    for place, argument in enumerate(call.arguments):
        if argument == f"--{long}" or (short and re.fullmatch(rf"-[A-Za-z]*{short}", argument)):
            found.append(call.arguments[place + 1] if place + 1 < len(call.arguments) else "")
        elif argument.startswith(f"--{long}="):
            found.append(argument.partition("=")[2])
        elif short and re.match(rf"-{short}.", argument):
            found.append(argument[2:])
    return found


def dump(call: Call) -> Opinion:
    """pg_dump and its like copy whole databases out."""
    return ask("copies or replaces whole databases")


RULES: dict[str, Rule] = (
    dict.fromkeys(words("psql mysql mariadb cockroach pgcli mycli"), sql)
    | dict.fromkeys(words("sqlite3 sqlite duckdb"), sqlite)
    | dict.fromkeys(words("redis-cli valkey-cli keydb-cli"), redis)
    | dict.fromkeys(words("mongo mongosh"), mongo)
    | dict.fromkeys(
        words(
            "pg_dump pg_dumpall pg_restore mysqldump mongodump mongorestore dropdb createdb dropuser "
            "createuser mysqladmin pg_ctl initdb"
        ),
        dump,
    )
)
