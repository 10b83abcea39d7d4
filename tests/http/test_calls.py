#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Methods of actors called by HTTP, on a real cluster; and the model of examples/serve_mnist asked
by curl.
Usage: test_calls.py CRT CALLS_PROGRAM SERVE_MNIST"""
import array
import contextlib
import http.client
import json
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest

import real_cluster

CRT, PROGRAM, SERVE_MNIST = sys.argv[1:4]
PATIENCE = 60


class Cluster(real_cluster.Cluster):
    def __init__(self):
        super().__init__(CRT, "--num-cpus", "2", store="200M")
        self.owner = self.token()
        self.program = self.start(PROGRAM, says="ready")

    def connect(self):
        return http.client.HTTPConnection(*self.url[7:].split(":"), timeout=PATIENCE)

    def call(self, path, body="[]", token=True, connection=None, **headers):
        """Status, headers and body of the answer."""
        if not connection:
            with contextlib.closing(self.connect()) as own:
                return self.call(path, body, token, own, **headers)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            headers["Authorization"] = f"Bearer {self.owner if token is True else token}"
        connection.request("POST",
                           path if path.startswith("/") else f"/api/actors/calls/open/{path}", body,
                           headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def end(self):
        self.program.communicate("", timeout=PATIENCE)
        self.stop()


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.end()

    def answer(self, path, *args, **more):
        status, _, body = self.cluster.call(path, json.dumps(args), **more)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def refusal(self, path, body="[]", **more):
        status, _, text = self.cluster.call(path, body, **more)
        return status, json.loads(text)["error"]

    def test_a_method_answers(self):
        self.assertEqual(self.answer("add", 2, 3), 5)
        self.assertEqual(self.answer("add", 2.0, -(1 << 60)), 2 - (1 << 60))

    def test_values_of_every_kind_come_back_as_they_were(self):
        for value in (None, True, False, 0, -7, 1 << 62, 0.1, 1e300, -2.5, "", "Grüße \"\\\n\u0001",
                      [], {}, [1, [2, [3.5, "x"]],
                               {"a": {"b": [None, True]}}], {"k": [1, 2], "": "empty"}):
            self.assertEqual(self.answer("echo", value), value)

    def test_nested_lists_become_a_tensor_where_one_is_wanted(self):
        self.assertEqual(self.answer("describe", [[1, 2, 3], [4, 5, 6.5]]),
                         {"dtype": "float32", "shape": [2, 3], "sum": 21.5})
        self.assertEqual(self.answer("describe", [[[]]]),
                         {"dtype": "float32", "shape": [1, 1, 0], "sum": 0.0})
        self.assertEqual(
            self.answer("describe", {"dtype": "int64", "shape": [2, 2], "data": [1, 2, 3, 4]}),
            {"dtype": "int64", "shape": [2, 2], "sum": 10.0})
        self.assertEqual(self.answer("describe", {"dtype": "uint8", "shape": [], "data": [255]}),
                         {"dtype": "uint8", "shape": [], "sum": 255.0})
        for wrong in ([[1, 2], [3]], [[1],
                                      2], [["x"]], 3, {"dtype": "int64", "shape": [3], "data": [1]},
                      {"dtype": "uint8", "shape": [1],
                       "data": [256]}, {"dtype": "nothing", "shape": [1], "data": [1]},
                      {"dtype": "int64", "shape": [1 << 40, 1 << 40],
                       "data": []}, [[[[[[[[[1]]]]]]]]]):
            status, error = self.refusal("describe", json.dumps([wrong]))
            self.assertEqual((status, error["status"]), (400, "CRT_ERR_INVALID"), (wrong, error))

    def test_raw_tensors_and_bytes(self):
        floats = array.array("f", range(12)).tobytes()
        octets = {"Content_Type": "application/octet-stream"}
        described = json.loads(
            self.cluster.call("describe", floats, **octets, X_CRT_Dtype="float32",
                              X_CRT_Shape="3, 4")[2])
        self.assertEqual(described, {"dtype": "float32", "shape": [3, 4], "sum": 66.0})
        described = json.loads(
            self.cluster.call("describe", floats, **octets, X_CRT_Dtype="float32")[2])
        self.assertEqual(described["shape"], [12])
        self.assertEqual(json.loads(self.cluster.call("count_bytes", floats, **octets)[2]), 48)
        for dtype, shape in (("float32", "3,5"), ("float99", "12"), ("float32",
                                                                     "1,1,1,1,1,1,1,1,12"),
                             ("float32", "-1"), ("float32", "99999999999999"), ("", "12")):
            status, error = self.refusal("describe", floats, **octets, X_CRT_Dtype=dtype,
                                         X_CRT_Shape=shape)
            self.assertEqual((status, error["status"]), (400, "CRT_ERR_INVALID"),
                             (dtype, shape, error))

    def test_large_arguments_and_results_go_through_the_store(self):
        floats = array.array("f", [1.0] * (1 << 20)).tobytes()
        octets = {"Content_Type": "application/octet-stream"}
        described = json.loads(
            self.cluster.call("describe", floats, **octets, X_CRT_Dtype="float32",
                              X_CRT_Shape="1024,1024")[2])
        self.assertEqual(described,
                         {"dtype": "float32", "shape": [1024, 1024], "sum": float(1 << 20)})
        self.assertEqual(self.answer("describe", [[1] * 1000] * 100)["sum"], 1e5)
        self.assertEqual(self.answer("numbers", 3), [[0, 1], [2, 3], [4, 5]])
        self.assertEqual(self.answer("numbers", 20000)[-1], [39998, 39999])
        status, headers, body = self.cluster.call("numbers", "[300000]",
                                                  Accept="application/octet-stream")
        self.assertEqual((status, headers["X-CRT-Dtype"], headers["X-CRT-Shape"]),
                         (200, "float32", "300000,2"))
        self.assertEqual(array.array("f", body)[-1], 599999.0)

    def test_errors_are_told(self):
        status, error = self.refusal("fail")
        self.assertEqual((status, error), (500, {
            "status": "CRT_ERR_USER", "message": "it was not \"meant\" to work",
            "may_have_run": True
        }))
        self.assertEqual(self.refusal("add", "[1]")[0], 400)
        self.assertIn("takes 2 arguments, 1 given", self.refusal("add", "[1]")[1]["message"])
        self.assertIn("argument 2 is of kind string, int is wanted",
                      self.refusal("add", '[1, "x"]')[1]["message"])
        self.assertEqual(self.refusal("add", "[1.5, 2]")[0], 400)
        for broken in ("[1, 2", "{}", "7", "[" * 40 + "]" * 40, "[1e999]", "\xff"):
            self.assertEqual(self.refusal("add", broken.encode("latin1"))[0], 400, broken)
        self.assertEqual(self.refusal("numbers", "[-1]")[0], 400)

    def test_what_the_class_does_not_open_is_not_there(self):
        for path in ("hidden", "none", "/api/actors/calls/closed/hidden",
                     "/api/actors/calls/nobody/add", "/api/actors/elsewhere/open/add"):
            status, error = self.refusal(path, "[1, 2]")
            self.assertEqual((status, error["status"]), (404, "CRT_ERR_NOT_FOUND"), (path, error))
        for path in ("/api/actors/calls/open/", "/api/actors/calls//add", "/api/actors/calls/open",
                     "/api/actors/calls/" + "n" * 128 + "/add"):
            self.assertEqual(self.refusal(path)[0], 400, path)
        with contextlib.closing(self.cluster.connect()) as connection:
            connection.request("GET", "/api/actors/calls/open/add",
                               headers={"Authorization": f"Bearer {self.cluster.owner}"})
            self.assertEqual(connection.getresponse().status, 405)

    def test_without_a_token_only_what_is_public(self):
        self.assertEqual(self.answer("for_all", 4, 5, token=False), 9)
        for path in ("add", "hidden", "none", "/api/actors/calls/closed/hidden",
                     "/api/actors/calls/nobody/add"):
            self.assertEqual(self.refusal(path, "[1, 2]", token=False),
                             (401, {"message": "Unauthorized: Missing authentication token"}))
        self.assertEqual(self.refusal("for_all", "[1, 2]", token="0" * 64)[0], 403)
        self.assertEqual(
            self.refusal("for_all", "[1, 2]", token=False, Origin="http://elsewhere")[0], 405)
        self.assertEqual(self.refusal("for_all", b" " * ((1 << 20) + 1), token=False)[0], 413)

    def test_strangers_are_told_nothing_of_actors_that_are_not_open_to_them(self):
        nothing = (401, {"message": "Unauthorized: Missing authentication token"})
        for name in ("nobody", "closed", "pending", "starting"):
            for body in ("[]", "[1", "[" * 40):
                began = time.monotonic()
                self.assertEqual(
                    self.refusal(f"/api/actors/calls/{name}/f?timeout_ms=30000", body, token=False),
                    nothing, (name, body))
                self.assertLess(time.monotonic() - began, 10, name)

    def test_strangers_are_not_told_why_an_open_actor_died(self):
        self.assertEqual(self.answer("for_all", 4, 5, token=False), 9)
        status, error = self.refusal("die_for_all", token=False)
        self.assertEqual((status, error["message"]), (503, "the actor can't be called just now"))
        self.assertIn("Open", self.refusal("die")[1]["message"])

    def test_a_tensor_of_a_stranger_is_one_that_user_code_can_trust(self):
        octets = {"Content_Type": "application/octet-stream", "token": False}
        for wrong in ([-5, 0], [400000000, 0], [0, 1 << 40, 1 << 40], [1 << 62, 4, 0]):
            body = json.dumps([{"dtype": "float32", "shape": wrong, "data": []}])
            status, error = self.refusal("describe_for_all", body, token=False)
            self.assertEqual((status, error["status"]), (400, "CRT_ERR_INVALID"), (wrong, error))
            self.assertEqual(self.refusal("describe", body)[0], 400)
            shape = ",".join(str(n) for n in wrong)
            self.assertEqual(
                self.refusal("describe", b"", Content_Type="application/octet-stream",
                             X_CRT_Dtype="float32", X_CRT_Shape=shape)[0], 400, shape)
        self.assertEqual(self.answer("describe_for_all", [[], []], token=False)["shape"], [2, 0])
        self.assertEqual(
            self.refusal("describe_for_all", b"\0\1\2", **octets, X_CRT_Dtype="bool")[0], 400)
        self.assertEqual(
            json.loads(
                self.cluster.call("describe_for_all", b"\0\1\1", **octets,
                                  X_CRT_Dtype="bool")[2])["sum"], 2.0)

    def test_what_strangers_send_is_bounded_in_all(self):
        """Of those that send no end of their bodies only so many are heard, and who has a token is
        served all the same."""
        self.assertEqual(self.answer("for_all", 4, 5, token=False), 9)
        head = (
            b"POST /api/actors/calls/open/for_all HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 1048576\r\n\r\n["
        )
        with contextlib.ExitStack() as stack:
            held = [
                stack.enter_context(socket.create_connection(self.cluster.url[7:].split(":")))
                for _ in range(9)
            ]
            for one in held:
                one.sendall(head)
            asked = time.monotonic()
            refused = select.select(held, [], [], PATIENCE)[0]
            self.assertEqual([one.recv(12) for one in refused], [b"HTTP/1.1 503"])
            self.assertGreater(time.monotonic() - asked, 0.4,
                               "one that asks again at once is not held back")
            status = self.cluster.call("for_all", "[1, 2]" + " " * 100000, token=False)[0]
            self.assertEqual(status, 503)
            self.assertEqual(self.answer("add", 1, 2), 3)
        until = time.monotonic() + PATIENCE
        while status != 200 and time.monotonic() < until:
            status = self.cluster.call("for_all", "[1, 2]" + " " * 100000, token=False)[0]
        self.assertEqual(status, 200)

    def test_a_read_only_token_calls_what_a_stranger_may(self):
        reader = subprocess.run([CRT, "token", "--read-only", "--address", self.cluster.address],
                                stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.assertEqual(self.answer("for_all", 4, 5, token=reader), 9)
        for path in ("add", "none", "/api/actors/calls/closed/hidden",
                     "/api/actors/calls/nobody/add"):
            self.assertEqual(self.refusal(path, "[1, 2]", token=reader),
                             (403, {"message": "Forbidden: this token is read-only"}))

    def test_a_connection_is_kept(self):
        with contextlib.closing(self.cluster.connect()) as connection:
            for i in range(50):
                self.assertEqual(self.answer("add", i, 1, connection=connection), i + 1)
                if i == 25:
                    self.assertEqual(self.cluster.call("none", connection=connection)[0], 404)

    def test_many_at_a_time(self):
        wrong = []

        def work(number):
            with contextlib.closing(self.cluster.connect()) as connection:
                for i in range(40):
                    if self.answer("add", i, number, connection=connection) != i + number:
                        wrong.append((number, i))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_timeout(self):
        began = time.monotonic()
        status, error = self.refusal("hang?timeout_ms=200")
        self.assertEqual((status, error["status"], error["may_have_run"]),
                         (504, "CRT_ERR_TIMED_OUT", True))
        self.assertLess(time.monotonic() - began, 10)
        for wrong in ("0", "-1", "x", "99999999"):
            self.assertEqual(self.refusal(f"add?timeout_ms={wrong}", "[1, 2]")[0], 400)
        self.assertEqual(self.refusal("add?other=1", "[1, 2]")[0], 400)

    def wait_for(self, method, wanted):
        until = time.monotonic() + PATIENCE
        while self.answer(method) != wanted and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(self.answer(method), wanted)

    def test_who_leaves_cancels(self):
        self.wait_for("hanging", 0)
        before = self.answer("cancelled")
        with socket.create_connection(self.cluster.url[7:].split(":")) as s:
            s.sendall(
                b"POST /api/actors/calls/open/hang HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Length: 2\r\n"
                b"Authorization: Bearer " + self.cluster.owner.encode() + b"\r\n\r\n[]")
            self.wait_for("hanging", 1)
        self.wait_for("hanging", 0)
        self.assertEqual(self.answer("cancelled"), before + 1)

    def events(self, *args):
        status, headers, body = self.cluster.call("stream", json.dumps(args),
                                                  Accept="text/event-stream")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"))
        return [
            dict(line.split(": ", 1) for line in event.split("\n"))
            for event in body.decode().rstrip("\n").split("\n\n")
        ]

    def test_a_stream_comes_as_events(self):
        self.assertEqual(
            self.events(3),
            [{"data": "0"}, {"data": "1"}, {"data": "2"}, {"event": "end", "data": "null"}])
        self.assertEqual(self.events(0), [{"event": "end", "data": "null"}])
        self.assertEqual(len(self.events(5000)), 5001)
        events = self.events(-2)
        self.assertEqual(events[:2], [{"data": "0"}, {"data": "1"}])
        self.assertEqual((events[2]["event"], json.loads(events[2]["data"])["error"]["message"]),
                         ("error", "no more of them"))
        status, _, body = self.cluster.call("add", "[1]", Accept="text/event-stream")
        self.assertEqual((status, json.loads(body)["error"]["status"]), (400, "CRT_ERR_INVALID"))

    def test_a_restarted_actor_goes_on(self):
        status, error = self.refusal("die")
        self.assertEqual((status, error["status"]), (503, "CRT_ERR_ACTOR_DIED"))
        self.assertEqual(self.answer("add", 1, 1), 2)

    def test_calls_do_not_keep_an_actor_alive(self):
        path = "/api/actors/calls/a/short/life/add"
        self.assertEqual(self.answer(path, 1, 1), 2)
        self.cluster.program.stdin.write("d\n")
        self.cluster.program.stdin.flush()
        self.assertEqual(self.cluster.program.stdout.readline(), "dropped\n")
        until = time.monotonic() + PATIENCE
        status = 200
        while status != 404 and time.monotonic() < until:
            status = self.cluster.call(path, "[1, 1]")[0]
            self.assertIn(status, (200, 404, 503))
        self.assertEqual(status, 404)


@unittest.skipUnless(shutil.which("curl"), "no curl here")
class Served(unittest.TestCase):
    """The model of the example, asked as its text says."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.server = cls.cluster.start(SERVE_MNIST, says="POST /api/actors/serve/digits/predict")

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.communicate(timeout=PATIENCE)
        cls.cluster.end()

    def curl(self, method, digit, *more):
        drawing = subprocess.run([SERVE_MNIST, "--example", str(digit)], stdout=subprocess.PIPE,
                                 check=True).stdout
        return subprocess.run([
            "curl", "-sS", "-H", f"Authorization: Bearer {self.cluster.owner}", "--data", "@-",
            *more, f"{self.cluster.url}/api/actors/serve/digits/{method}"
        ], input=drawing, stdout=subprocess.PIPE, check=True).stdout.decode()

    def test_digits_are_recognised(self):
        right = 0
        for digit in range(10):
            row = json.loads(self.curl("predict", digit))[0]
            self.assertAlmostEqual(sum(row), 1, places=3)
            right += row.index(max(row)) == digit
        self.assertGreaterEqual(right, 9)

    def test_curl_draws_the_answer(self):
        text = self.curl("draw", 7, "-H", "Accept: text/plain")
        self.assertEqual(json.loads(self.curl("draw", 7)), text)
        self.assertEqual(len(text.split("\n")[0]), 28)
        self.assertIn("@", text)
        self.assertRegex(text, r"\na 7 \(\d+\.\d %\)\n$")
        events = self.curl("look_at", 7, "-N", "-H", "Accept: text/event-stream").split("\n\n")
        self.assertEqual([len(events), events[28], events[29]],
                         [31, "data: 7", "event: end\ndata: null"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
