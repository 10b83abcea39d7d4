#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt data get, and folders of jobs by https: a server of this host gives small files, whole, in
parts, wrong ones and too many.
Usage: test_data.py CRT"""
import hashlib
import http.server
import io
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import zipfile

CRT = os.path.abspath(sys.argv[1])
PATIENCE = 120
MNIST = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
         "t10k-labels-idx1-ubyte.gz")
BATCHES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


class Server(http.server.ThreadingHTTPServer):
    """Gives what `files` has, by https; breaks off after `breaks` bytes of a body, once."""
    daemon_threads = True

    def __init__(self, certificate):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.asked, self.breaks, self.ranges = {}, [], None, True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"https://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # a client that left


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, begin = self.server, 0
        server.asked.append((self.path, self.headers.get("Range")))
        data = server.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        if isinstance(data, str):
            self.send_response(302)
            self.send_header("Location", data)
            self.end_headers()
            return
        if self.headers.get("Range") and server.ranges:
            begin = int(self.headers["Range"][len("bytes="):].rstrip("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        end = len(data) if server.breaks is None else begin + server.breaks
        server.breaks = None
        self.wfile.write(data[begin:end])

    def log_message(self, *_):
        pass


def sum_of(data):
    return hashlib.sha256(data).hexdigest()


class Data(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.certificate = os.path.join(cls.place.name, "server.pem")
        subprocess.run([
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
            "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", cls.certificate,
            "-out", cls.certificate + ".crt"
        ], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(cls.certificate, "a", encoding="ascii") as key, open(
                cls.certificate + ".crt", encoding="ascii") as certificate:
            key.write(certificate.read())
        cls.server = Server(cls.certificate)
        os.environ["SSL_CERT_FILE"] = cls.certificate + ".crt"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.place.cleanup()

    def setUp(self):
        self.folder = os.path.join(self.place.name, self.id().rsplit(".", 1)[1])
        os.mkdir(self.folder)
        self.server.files, self.server.breaks, self.server.ranges = {}, None, True
        self.server.asked.clear()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def crt(self, *words, code=0):
        done = subprocess.run([CRT, *words], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=PATIENCE,
                              cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def sums(self, files):
        with open(self.path("sums"), "w", encoding="ascii") as out:
            out.writelines(f"{sum_of(data)}  {name}\n" for name, data in files.items())
        return self.path("sums")

    def give(self, files):
        """By the server, with the list of sums."""
        self.server.files = {f"/m/{name}": data for name, data in files.items()}
        return ("--from", self.server.url + "/m/", "--checksums", self.sums(files))

    def test_files_come_once_and_are_checked(self):
        files = {name: os.urandom(1000 + i) for i, name in enumerate(MNIST)}
        source = self.give(files)
        said = self.crt("data", "get", "mnist", *source)
        self.assertIn("mnist is in data/mnist\n", said)
        self.assertEqual(sorted(os.listdir(self.path("data", "mnist"))), sorted(MNIST))
        for name, data in files.items():
            self.assertEqual(self.read("data", "mnist", name), data)
        self.assertEqual(len(self.server.asked), 4)
        said = self.crt("data", "get", "mnist", *source)
        self.assertEqual(said.count(": is there\n"), 4)
        self.assertEqual(len(self.server.asked), 4)

    def test_a_folder_is_a_source_too(self):
        os.mkdir(self.path("there"))
        files = {name: os.urandom(500) for name in ("train_32x32.mat", "test_32x32.mat")}
        for name, data in files.items():
            with open(self.path("there", name), "wb") as file:
                file.write(data)
        said = self.crt("data", "get", "svhn", "--from", "there", "--into", "a/b/c", "--checksums",
                        self.sums(files))
        self.assertIn("svhn is in a/b/c; examples/convert_svhn.py makes train.bin", said)
        self.assertEqual(self.read("a", "b", "c", "test_32x32.mat"), files["test_32x32.mat"])
        self.assertIn("there/train_32x32.mat: its SHA-256 is",
                      self.crt("data", "get", "svhn", "--from", "there", code=1))

    def test_what_broke_off_goes_on(self):
        files = {name: os.urandom(200000) for name in MNIST}
        source = self.give(files)
        self.server.breaks = 70000
        self.crt("data", "get", "mnist", *source, code=1)
        self.assertEqual(os.listdir(self.path("data", "mnist")), [MNIST[0] + ".part"])
        self.crt("data", "get", "mnist", *source)
        self.assertIn((f"/m/{MNIST[0]}", "bytes=70000-"), self.server.asked)
        self.assertEqual(self.read("data", "mnist", MNIST[0]), files[MNIST[0]])
        self.assertEqual(sorted(os.listdir(self.path("data", "mnist"))), sorted(MNIST))

    def test_a_server_that_knows_no_parts_gives_all_again(self):
        files = {name: os.urandom(200000) for name in MNIST}
        source = self.give(files)
        self.server.breaks, self.server.ranges = 70000, False
        self.crt("data", "get", "mnist", *source, code=1)
        self.crt("data", "get", "mnist", *source)
        self.assertEqual(self.read("data", "mnist", MNIST[0]), files[MNIST[0]])

    def test_what_is_wrong_is_not_kept(self):
        files = {name: os.urandom(1000) for name in MNIST}
        source = self.give(files)
        self.server.files[f"/m/{MNIST[1]}"] = b"another"
        said = self.crt("data", "get", "mnist", *source, code=1)
        self.assertRegex(said, rf"{MNIST[1]}: its SHA-256 is [0-9a-f]{{64}}, not [0-9a-f]{{64}}: "
                         ".*nothing of it was kept")
        self.assertEqual(os.listdir(self.path("data", "mnist")), [MNIST[0]])
        # Without the list the authors' sums count.
        said = self.crt("data", "get", "mnist", "--from", self.server.url + "/m", "--into", "x",
                        code=1)
        self.assertIn("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", said)
        self.assertEqual(os.listdir(self.path("x")), [])
        self.server.files = {}
        self.assertIn("the server answered 404", self.crt("data", "get", "mnist", *source, code=1))

    def test_an_archive_is_unpacked_without_what_does_not_belong_there(self):
        packed, batches = io.BytesIO(), {name: os.urandom(3073) for name in BATCHES}
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, data in (("cifar-10-batches-bin/readme.html", b"x"), ("../escaped", b"x"),
                               *((f"cifar-10-batches-bin/{name}", data)
                                 for name, data in batches.items())):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
            link = tarfile.TarInfo("other/test_batch.bin")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        source = self.give({"cifar-10-binary.tar.gz": packed.getvalue()})
        self.crt("data", "get", "cifar10", *source, "--into", "c")
        self.assertEqual(sorted(os.listdir(self.path("c"))),
                         sorted([*BATCHES, "cifar-10-binary.tar.gz"]))
        self.assertFalse(os.path.lexists(self.path("escaped")))
        for name, data in batches.items():
            self.assertEqual(self.read("c", name), data)
        os.remove(self.path("c", BATCHES[3]))
        self.crt("data", "get", "cifar10", *source, "--into", "c")
        self.assertEqual(self.read("c", BATCHES[3]), batches[BATCHES[3]])
        self.assertEqual(len(self.server.asked), 1)
        self.assertIn("cifar-10-binary.tar.gz: is there\n",
                      self.crt("data", "get", "cifar10", *source, "--into", "c"))

    def test_an_archive_that_lacks_files_or_is_none_is_told(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            entry = tarfile.TarInfo("cifar-100-binary/train.bin")
            archive.addfile(entry, io.BytesIO())
        source = self.give({"cifar-100-binary.tar.gz": packed.getvalue()})
        self.assertIn("has 1 of the 2 files of cifar100",
                      self.crt("data", "get", "cifar100", *source, code=1))
        source = self.give({"cifar-100-binary.tar.gz": b"no archive at all"})
        self.crt("data", "get", "cifar100", *source, "--into", "y", code=1)

    def test_who_asks_for_what_is_not_there_is_told_what_is(self):
        for words, code, why in (
            (("imagenet", "--from", "."), 2, "no data set \"imagenet\": there are mnist"),
            (("mnist",), 2, "--from says which server or folder has them"),
            ((), 2, "which of mnist, cifar10, cifar100 and svhn?"),
            (("mnist", "--from", "."), 1, "./train-images-idx3-ubyte.gz: No such file"),
            (("mnist", "--from", ".", "--checksums", "sums"), 1, "has no line \"SHA256  train"),
        ):
            with open(self.path("sums"), "w", encoding="ascii"):
                pass
            self.assertIn(why, self.crt("data", "get", *words, code=code))

    def test_https_leads_to_https_only(self):
        self.server.files = {f"/m/{MNIST[0]}": "http://127.0.0.1:1/x"}
        said = self.crt("data", "get", "mnist", "--from", self.server.url + "/m", code=1)
        self.assertNotIn("refused", said.lower())
        self.assertIn("rotocol", said)

    def test_a_job_runs_in_a_folder_from_a_server(self):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("said", "by the server\n")
        self.server.files = {"/f.zip": packed.getvalue()}
        os.environ["CRT_STATE_DIR"] = self.path("state")
        said = self.crt("start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus",
                        "1", "--object-store-memory", "50M")
        address = said.split("--address ")[1].split()[0]
        submit = ("job", "submit", "--address", address, "--working-dir")
        url, sha = self.server.url + "/f.zip", sum_of(packed.getvalue())
        try:
            self.assertIn("by the server\n",
                          self.crt(*submit, f"{url}#sha256={sha}", "--", "cat", "said"))
            self.assertIn("its SHA-256 is",
                          self.crt(*submit, f"{url}#sha256={sum_of(b'')}", "--", "true", code=1))
            for wrong in (url, url.replace("https", "http") + "#sha256=" + sha, url + "#sha256=12",
                          "s3://bucket/f.zip"):
                self.assertIn("https://HOST/FILE.zip#sha256=HEX",
                              self.crt(*submit, wrong, "--", "true", code=1))
        finally:
            self.crt("stop", "--address", address)
        shutil.rmtree(self.path("state"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
