import email.utils
import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from context_engine.errors import ConfigError, ProviderError
from context_engine.models import OpenAICompatibleEmbedder, as_embedder, embed_documents

KEY = "sk-very-secret"
DEADLINE_S = 30


def vector(text):
    return [float(len(text)), 1.0]


def embeddings(body):
    """Answer as OpenAI does, though in reverse order: `index` counts."""
    entries = [
        {"object": "embedding", "index": index, "embedding": vector(text)} for index, text in enumerate(body["input"])
    ]
    return 200, {}, {"object": "list", "data": entries[::-1], "model": body["model"]}


def answer(data, status=200, headers=None):
    """Answer always the same; bytes go out as they are."""
    return lambda _body: (status, headers or {}, data)


class Server(ThreadingHTTPServer):
    """Speaks the embeddings protocol on loopback; `script` answers the next requests, then `embeddings`."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Callable] = []
        self.requests: list[tuple[str, dict, dict]] = []
        self.release = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        script = self.server.script
        reply = (script.pop(0) if script else embeddings)(body)
        if reply is None:
            self.close_connection = True
            return
        status, headers, data = reply
        payload = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.release.set()
    running.shutdown()
    thread.join(DEADLINE_S)
    running.server_close()


@pytest.fixture
def waits():
    return []


@pytest.fixture
def make(server, waits):
    """Build embedders for the server; they are closed after the test."""
    made = []

    def build(url=None, **options):
        options = {"dim": 2, "api_key": KEY, "sleep": waits.append, **options}
        made.append(OpenAICompatibleEmbedder(url or server.url, "some-model", **options))
        return made[-1]

    yield build
    for embedder in made:
        embedder.close()


def test_a_request_and_its_answer(server, make):
    embedder = as_embedder(make())
    vectors = embed_documents(embedder, ["a", "bbb"])
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 1], [3, 1]]
    ((path, headers, body),) = server.requests
    assert path == "/v1/embeddings"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {"model": "some-model", "input": ["a", "bbb"]}
    assert embedder.name == "some-model"


def test_prefixes_dimensions_a_slash_and_no_key(server, make):
    embedder = make(
        server.url + "/",
        api_key=None,
        dimensions=2,
        query_prefix="q: ",
        document_prefix="d: ",
    )
    assert embedder.embed_query("a").tolist() == [4, 1]
    embedder.embed_documents(["b"])
    assert [body["input"] for _, _, body in server.requests] == [["q: a"], ["d: b"]]
    assert server.requests[0][2]["dimensions"] == 2
    assert "authorization" not in {name.lower() for name in server.requests[0][1]}
    assert server.requests[0][0] == "/v1/embeddings"


def test_texts_go_out_in_batches_and_come_back_in_order(server, make):
    texts = ["x" * length for length in range(1, 8)]
    vectors = make(batch_size=3).embed_documents(texts)
    assert vectors[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert [len(body["input"]) for _, _, body in server.requests] == [3, 3, 1]


def test_blank_texts_are_not_sent_and_have_no_vector(server, make):
    embedder = make(document_prefix="d: ")
    vectors = embedder.embed_documents(["", "a", " \n "])
    assert np.isnan(vectors[[0, 2]]).all()
    assert vectors[1].tolist() == [4, 1]
    assert np.isnan(embedder.embed_query("")).all()
    assert embedder.embed_documents([]).shape == (0, 2)
    assert len(server.requests) == 1


def test_entries_without_an_index_are_in_order(server, make):
    server.script = [answer({"data": [{"embedding": [1, 2]}, {"embedding": [3, 4]}]})]
    assert make().embed_documents(["a", "b"]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 0, "embedding": [1, 2]}, {"index": 2, "embedding": [5, 6]}],
        [
            {"index": 2, "embedding": [5, 6]},
            {"index": 1, "embedding": None},
            {"index": 0, "embedding": [1, 2]},
        ],
        [
            {"index": 0, "embedding": [1, 2]},
            {"index": 1, "embedding": [9]},
            {"index": 2, "embedding": [5, 6]},
        ],
    ],
)
def test_a_text_that_the_server_leaves_out_has_a_row_of_nan(server, make, data):
    server.script = [answer({"data": data})]
    vectors = make().embed_documents(["a", "b", "c"])
    assert vectors[[0, 2]].tolist() == [[1, 2], [5, 6]]
    assert np.isnan(vectors[1]).all()


@pytest.mark.parametrize("header", ["7", "7.0"])
def test_retry_after_is_obeyed(server, make, waits, header):
    busy = answer({}, 429, {"retry-after": header})
    server.script = [busy, busy]
    assert make().embed_query("a").tolist() == [1, 1]
    assert waits == [7.0, 7.0]


def test_retry_after_can_be_a_date(server, make, waits):
    date = email.utils.formatdate(time.time() + 10, usegmt=True)
    server.script = [answer({}, 503, {"retry-after": date})]
    make().embed_query("a")
    assert 5 < waits[0] <= 10


@pytest.mark.parametrize("header", ["soon", "-1", "nan", ""])
def test_a_retry_after_that_makes_no_sense_is_ignored(server, make, waits, header):
    server.script = [answer({}, 429, {"retry-after": header})]
    make().embed_query("a")
    assert waits == [0.5]


def test_a_server_that_asks_for_a_long_wait_is_not_waited_for(server, make, waits):
    server.script = [answer({}, 429, {"retry-after": "3600"})]
    with pytest.raises(ProviderError, match="answered HTTP 429") as caught:
        make().embed_query("a")
    assert caught.value.retryable
    assert not waits
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_after_three_tries_the_caller_may_try_again(server, make, waits, status):
    server.script = [answer({"error": f"bad {KEY}"}, status)] * 3
    with pytest.raises(ProviderError, match=f"answered HTTP {status}") as caught:
        make().embed_query("a")
    assert caught.value.retryable
    assert waits == [0.5, 1.0]
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [301, 400, 401, 404])
def test_a_refusal_is_final_and_its_body_is_not_repeated(server, make, waits, status):
    server.script = [answer({"error": f"Incorrect API key: {KEY}"}, status)]
    with pytest.raises(ProviderError) as caught:
        make(server.url.replace("//", f"//ada:{KEY}@")).embed_query("a")
    assert str(caught.value) == (f"embedder 'some-model' at 127.0.0.1:{server.server_port} answered HTTP {status}")
    assert not caught.value.retryable
    assert not waits


@pytest.mark.parametrize(
    "data",
    [
        b'{"data": [{"index": 0, "embe',
        b"\xff\xfe",
        b"<html>sk-very-secret</html>",
        [],
        {"error": KEY},
        {"data": None},
        {"data": []},
        {"data": ["a", "b"]},
        {"data": [{"embedding": [1, 2]}]},
        {"data": [{"index": 0}, {"index": 1}]},
        {"data": [{"index": [0], "embedding": [1, 2]}, {"index": 1, "embedding": [1, 2]}]},
        {"data": [{"index": 0, "embedding": [1, 2]}] * 2},
        {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 2, "embedding": [1, 2]}]},
        {"data": [{"index": index, "embedding": [1, 2]} for index in range(3)]},
    ],
)
def test_an_answer_that_is_not_embeddings_is_final(server, make, waits, data):
    server.script = [answer(data)]
    with pytest.raises(ProviderError, match="something other than embeddings") as caught:
        make().embed_documents(["a", "b"])
    assert not caught.value.retryable
    assert KEY not in str(caught.value)
    assert not waits


def test_another_dimension_is_an_error_that_names_both(make):
    with pytest.raises(ProviderError, match=r"returned shape \(1, 2\), expected shape \(1, 768\)"):
        make(dim=768).embed_query("a")


def test_a_timeout_is_tried_again(server, make, waits):
    def hang(_body):
        server.release.wait(DEADLINE_S)

    server.script = [hang]
    assert make(timeout_s=0.2).embed_query("a").tolist() == [1, 1]
    assert waits == [0.5]


def test_a_connection_that_is_cut_is_tried_again(server, make, waits):
    server.script = [lambda _body: None] * 3
    with pytest.raises(ProviderError, match="failed: RemoteProtocolError") as caught:
        make().embed_query("a")
    assert caught.value.retryable
    assert waits == [0.5, 1.0]


def test_nobody_listens(make, waits):
    with Server() as gone:
        url = gone.url
    with pytest.raises(ProviderError, match="failed: ConnectError") as caught:
        make(url).embed_query("a")
    assert caught.value.retryable
    assert caught.value.__cause__ is not None
    assert len(waits) == 2


def test_it_closes_as_a_context_manager(server):
    with OpenAICompatibleEmbedder(server.url, "m", 2) as embedder:
        embedder.embed_query("a")
    with pytest.raises(RuntimeError, match="closed"):
        embedder.embed_query("a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "api.example.com/v1"}, "base_url must be"),
        ({"url": "file:///etc/passwd"}, "base_url must be"),
        ({"url": "http://host:port/v1"}, "base_url is not"),
        ({"api_key": f"{KEY}\n"}, "api_key holds"),
        ({"api_key": f"{KEY}é"}, "api_key holds"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"batch_size": 0}, "batch_size"),
        ({"dimensions": 3}, r"dimensions \(3\) must equal dim \(2\)"),
    ],
)
def test_an_argument_that_cannot_be_right_is_refused(make, options, message):
    with pytest.raises(ConfigError, match=message) as caught:
        make(**options)
    assert KEY not in str(caught.value)


def test_without_httpx_the_extra_is_named(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"pip install 'context-engine\[http\]'"):
        make()
