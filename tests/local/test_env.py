"""Settings from the environment: what counts as absent, what is refused, and by which words."""

from __future__ import annotations

import pytest

from opsledger.lib.env import BadSetting, Env


@pytest.mark.parametrize("value", ["", "   "], ids=["empty", "blank"])
def test_an_empty_value_counts_as_absent(value):
    env = Env({"NAME": value})
    assert env.text("NAME", "else") == "else"
    assert env.number("NAME", 7, least=1, most=9) == 7
    assert env.flag("NAME", True) is True
    assert env.names("NAME", ["a"]) == ["a"]
    assert env.choice("NAME", "a", ("a", "b")) == "a"
    assert env.url("NAME", "http://a", ("http",)) == "http://a"


def test_a_value_from_a_file_loses_the_space_around_it(tmp_path):
    (tmp_path / "secret").write_text("one two\n")
    assert Env({"NAME_FILE": str(tmp_path / "secret")}).text("NAME") == "one two"


@pytest.mark.parametrize("value", ["-1", "0", "10", "1.5", "1e1", "٣", "0x1", "one", "1 2"])
def test_a_number_that_is_none_or_out_of_range_is_refused_by_name(value):
    with pytest.raises(BadSetting, match=r"NAME=.* must be a whole number from 1 to 9"):
        Env({"NAME": value}).number("NAME", 5, least=1, most=9)


@pytest.mark.parametrize(
    ("value", "meant"), [("1", True), ("Yes", True), ("on", True), ("0", False), ("FALSE", False)]
)
def test_a_flag_is_read_in_any_case(value, meant):
    assert Env({"NAME": value}).flag("NAME", not meant) is meant


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"NAME": "a", "NAME_FILE": "/b"}, "NAME and NAME_FILE are both set"),
        ({"NAME_FILE": "/nowhere"}, "NAME_FILE='/nowhere' can't be read"),
        ({"NAME_FILE": "/"}, "NAME_FILE='/' can't be read"),
    ],
    ids=["both", "absent", "folder"],
)
def test_a_value_that_can_not_be_found_is_refused_by_name(source, words):
    with pytest.raises(BadSetting, match=words):
        Env(source).text("NAME")


def test_a_flag_a_choice_and_a_url_that_make_no_sense_are_refused_by_name():
    env = Env({"FLAG": "maybe", "CHOICE": "c", "URL": "ftp://x"})
    with pytest.raises(BadSetting, match="FLAG='maybe' is neither yes nor no"):
        env.flag("FLAG", False)
    with pytest.raises(BadSetting, match="CHOICE='c' is not one of: a, b"):
        env.choice("CHOICE", "a", ("a", "b"))
    with pytest.raises(BadSetting, match="URL must be a URL that starts with one of: http://"):
        env.url("URL", "", ("http",))


NONSENSE_URLS = {
    "a port that is a word": ("redis://there:six/0", "its port is not a number from 1 to 65535"),
    "a port that does not exist": ("http://there:99999", "its port is not a number from 1 to 65535"),
    "a port of a second host": ("postgresql://one:5432,two:x/db", "its port is not a number from 1 to 65535"),
    "no host": ("https://", "it names no host"),
    "no host, a port": ("http://:8000", "it names no host"),
    "brackets that do not close": ("http://[::1", "Invalid IPv6 URL"),
    "a broker's database that is no number": ("redis://there/first", "its path is the number of a database"),
}
SOUND_URLS = [
    "postgresql:///db?host=/run/postgresql",
    "postgresql://one:5432,two/db",
    "postgresql://user:p%3Aw@[::1]:5432/db",
    "redis://",
    "redis://:secret@there:6379/15",
    "rediss://there/0?ssl_cert_reqs=none",
    "unix:///run/redis.sock?db=1",
    "http://localhost:8000",
    "https://ops.example/",
]
SCHEMES = ("http", "https", "postgresql", "redis", "rediss", "unix")


@pytest.mark.parametrize(("value", "words"), NONSENSE_URLS.values(), ids=NONSENSE_URLS.keys())
def test_a_url_that_leads_nowhere_is_refused_by_name_and_not_shown(value, words):
    """It may hold a password."""
    with pytest.raises(BadSetting, match=f"NAME can't be used: {words}") as why:
        Env({"NAME": value}).url("NAME", "", SCHEMES)
    assert value not in str(why.value)


@pytest.mark.parametrize("value", SOUND_URLS)
def test_a_url_that_leads_somewhere_is_taken_as_it_is(value):
    assert Env({"NAME": value}).url("NAME", "", SCHEMES) == value


@pytest.mark.parametrize(
    "value",
    ["http://proxy:3128/path", "http://user:secret@proxy:3128", "http://proxy:3128?x", "http://proxy/#x"],
)
def test_a_url_of_a_host_alone_is_nothing_more(value):
    env = Env({"NAME": value, "FINE": "http://proxy:3128", "SLASH": "http://proxy:3128/"})
    with pytest.raises(BadSetting, match="NAME can't be used: it must be http://host:port and nothing more"):
        env.url("NAME", "", ("http",), bare=True)
    assert env.url("FINE", "", ("http",), bare=True) == "http://proxy:3128"
    assert env.url("SLASH", "", ("http",), bare=True) == "http://proxy:3128/"
    assert env.url("ABSENT", "", ("http",), bare=True) == ""


def test_names_are_split_at_commas_and_trimmed():
    assert Env({"NAME": " a, b ,,c"}).names("NAME", []) == ["a", "b", "c"]


def test_networks_are_ranges_and_anything_else_is_refused_by_name():
    env = Env({"NAME": "10.0.0.0/8, fd00::/8"})
    assert env.networks("NAME") == ["10.0.0.0/8", "fd00::/8"]
    assert Env({}).networks("NAME") == []
    for nonsense in ("10.0.0.1/8", "localhost", "10.0.0.0/40"):
        with pytest.raises(BadSetting, match="NAME holds"):
            Env({"NAME": f"10.0.0.0/8,{nonsense}"}).networks("NAME")


@pytest.mark.parametrize(
    "host", ["ops.example.com", ".example.com", "10.0.0.1", "[::1]", "*", "ops_1", "a.b."]
)
def test_names_of_hosts_are_taken(host):
    assert Env({"HOSTS": f"x, {host}"}).hosts("HOSTS", []) == ["x", host]


@pytest.mark.parametrize("host", ["http://x", "x:8000", "x/y", "a b", "::1", "*.x", "-é"])
def test_what_could_be_no_requests_host_is_refused_by_name(host):
    with pytest.raises(BadSetting, match=r"HOSTS holds .* which is no name of a host"):
        Env({"HOSTS": f"x,{host}"}).hosts("HOSTS", [])


def test_an_address_of_ours_has_no_path():
    with pytest.raises(BadSetting, match="URL can't be used: it must be https://host:port and nothing more"):
        Env({"URL": "https://ops.example/sub/"}).url("URL", "", ("http", "https"), bare=True)
