"""Which commands are said to want the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places

ONLINE = """
curl -s https://example.org
curl localhost:3000/health
wget -q example.org/a.tar.gz
git push origin main
git -C sub fetch --all
git clone git@example.org:a/b.git
git submodule update --init
cd sub && git pull
pip install requests
pip3.11 install -e .
python -m pip install -r requirements.txt
python3 -m http.server 8000
npm ci
npx eslint .
uv sync
cargo add serde
go get example.org/x
apt-get install -y jq
sudo apt update
ssh host uptime
kubectl get pods
gh pr list
docker compose up -d
timeout 5 nc host 80
for h in a b; do ping -c1 $h; done
bash -c 'curl x.org'
exec 3<>/dev/tcp/example.org/80
cat < /dev/udp/1.2.3.4/53
openssl s_client -connect example.org:443
./fetch https://example.org/data
x=$(dig +short example.org)
"""

OFFLINE = """
ls -la
git status
git commit -m 'talk to the network'
git remote -v
git -c color.ui=never log --oneline
echo network
grep -r network .
pip list
pip --version
curl --version
npm run build
npm test
python -m pytest -q
python -m unittest
cargo build
go test ./...
make -j4
openssl dgst -sha256 file
cat https_notes.txt
rm -rf build
docker_entry.sh
"""


def _wants(command: str) -> bool:
    places = Places(home="/home/u", guarded=(), secret=(), other_homes=())
    return Assessor(places, Path("/home/u/w")).assess(command, Path("/home/u/w")).network


@pytest.mark.parametrize("command", ONLINE.strip().splitlines())
def test_wants_the_network(command: str):
    assert _wants(command)


@pytest.mark.parametrize("command", OFFLINE.strip().splitlines())
def test_does_not_want_the_network(command: str):
    assert not _wants(command)
