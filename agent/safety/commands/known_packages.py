"""Packages that everybody knows, by their exact names: installing one is like installing what is listed.

A name that is misspelt, new or unknown is not here, and so asks. Only the registry that the
project is set up for is meant: other sources, addresses and folders are no names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.safety.commands.call import Call, Opinion, fine
from agent.safety.shell.marks import words

ADDS = fine("installs packages that are well known")

_NODE = words(
    "react react-dom react-router react-router-dom redux @reduxjs/toolkit react-redux zustand jotai next "
    "vue vue-router pinia nuxt svelte @sveltejs/kit @angular/core @angular/cli rxjs express cors helmet "
    "morgan body-parser cookie-parser fastify koa @nestjs/core @nestjs/common hono socket.io "
    "socket.io-client ws axios node-fetch got undici lodash lodash-es underscore ramda date-fns dayjs "
    "moment luxon uuid nanoid zod yup joi ajv dotenv chalk commander yargs inquirer ora debug winston "
    "pino glob rimraf fs-extra chokidar execa cross-env concurrently nodemon typescript ts-node tsx "
    "@types/node @types/react @types/react-dom @types/jest @types/express @types/lodash @types/cors jest "
    "ts-jest @jest/globals babel-jest vitest @vitest/ui @vitest/coverage-v8 mocha chai sinon supertest "
    "@types/supertest @types/mocha @types/chai nyc c8 jsdom @testing-library/react "
    "@testing-library/jest-dom @testing-library/user-event @testing-library/dom @playwright/test "
    "playwright cypress eslint @eslint/js prettier eslint-config-prettier eslint-plugin-react "
    "eslint-plugin-import @typescript-eslint/parser @typescript-eslint/eslint-plugin typescript-eslint "
    "husky lint-staged vite @vitejs/plugin-react @vitejs/plugin-vue webpack webpack-cli "
    "webpack-dev-server html-webpack-plugin css-loader style-loader ts-loader babel-loader @babel/core "
    "@babel/preset-env @babel/preset-react @babel/preset-typescript esbuild rollup tsup turbo sass "
    "postcss autoprefixer tailwindcss @tailwindcss/vite clsx classnames tailwind-merge framer-motion "
    "lucide-react @mui/material @emotion/react @emotion/styled styled-components @tanstack/react-query "
    "swr graphql @apollo/client apollo-server prisma @prisma/client mongoose mongodb pg mysql2 sqlite3 "
    "better-sqlite3 redis ioredis knex sequelize typeorm drizzle-orm jsonwebtoken bcrypt bcryptjs "
    "passport multer sharp nodemailer cheerio puppeteer three d3 chart.js react-chartjs-2 recharts "
    "electron @storybook/react formik react-hook-form i18next react-i18next immer semver minimist marked "
    "js-yaml papaparse xlsx"
)
_PYTHON = words(
    "requests httpx aiohttp urllib3 flask django djangorestframework fastapi uvicorn gunicorn starlette "
    "jinja2 werkzeug click typer rich tqdm pydantic pydantic-settings sqlalchemy alembic psycopg2 "
    "psycopg2-binary psycopg asyncpg pymysql redis celery pymongo numpy pandas scipy matplotlib seaborn "
    "plotly scikit-learn statsmodels sympy networkx polars pyarrow torch torchvision tensorflow keras "
    "transformers datasets openai anthropic tiktoken langchain pillow opencv-python beautifulsoup4 lxml "
    "html5lib selenium playwright scrapy pyyaml toml tomli python-dotenv python-dateutil pytz attrs "
    "cattrs orjson ujson msgpack jsonschema cryptography pyjwt bcrypt passlib boto3 paramiko openpyxl "
    "xlsxwriter python-docx pypdf reportlab pytest pytest-cov pytest-asyncio pytest-mock pytest-xdist "
    "pytest-timeout pytest-django hypothesis coverage tox nox faker factory-boy freezegun responses respx "
    "vcrpy mypy ruff black isort flake8 pylint pyright bandit pre-commit ipython jupyter jupyterlab "
    "notebook ipykernel streamlit gradio dash setuptools wheel build pip hatch hatchling poetry-core "
    "types-requests types-pyyaml pandas-stubs django-stubs loguru structlog tenacity watchdog psutil "
    "colorama tabulate termcolor cython numba joblib sphinx mkdocs mkdocs-material websockets "
    "python-multipart flask-cors flask-sqlalchemy flask-login flask-migrate django-cors-headers "
    "marshmallow aiofiles anyio sqlmodel"
)
_RUST = words(
    "serde serde_json serde_yaml toml tokio async-trait futures anyhow thiserror clap log env_logger "
    "tracing tracing-subscriber regex rand chrono time uuid reqwest hyper axum actix-web rocket warp "
    "tower tower-http sqlx diesel rusqlite redis itertools rayon crossbeam parking_lot once_cell "
    "lazy_static bytes url base64 hex sha2 tempfile walkdir glob indicatif colored crossterm ratatui "
    "criterion proptest mockall pretty_assertions num-traits indexmap smallvec bitflags csv nom petgraph "
    "ndarray dashmap tonic prost strum"
)
_GO = words(
    "github.com/gin-gonic/gin github.com/gorilla/mux github.com/gorilla/websocket "
    "github.com/labstack/echo/v4 github.com/go-chi/chi/v5 github.com/gofiber/fiber/v2 "
    "github.com/stretchr/testify github.com/spf13/cobra github.com/spf13/viper github.com/spf13/pflag "
    "github.com/sirupsen/logrus go.uber.org/zap github.com/rs/zerolog github.com/google/uuid "
    "github.com/pkg/errors github.com/joho/godotenv gorm.io/gorm gorm.io/driver/postgres "
    "gorm.io/driver/sqlite github.com/lib/pq github.com/jackc/pgx/v5 github.com/jmoiron/sqlx "
    "github.com/mattn/go-sqlite3 github.com/redis/go-redis/v9 github.com/golang-jwt/jwt/v5 "
    "golang.org/x/crypto golang.org/x/net golang.org/x/sync golang.org/x/text golang.org/x/sys "
    "golang.org/x/exp golang.org/x/tools google.golang.org/grpc google.golang.org/protobuf "
    "gopkg.in/yaml.v3 github.com/google/go-cmp github.com/urfave/cli/v2 github.com/fatih/color "
    "github.com/prometheus/client_golang github.com/golang/mock"
)
_PYTHON_VERSION = r"(?:\[[\w,-]+\])?(?:(?:==|>=|<=|~=|!=|<|>)[\w.*]+(?:,(?:==|>=|<=|~=|!=|<|>)[\w.*]+)*)?"
_NODE_VERSION = r"(?:@[\^~]?[\w.-]+)?"

_ADDING: dict[str, tuple[str, frozenset[str], str]] = {
    "npm": (r"install|i|add", _NODE, _NODE_VERSION),
    "pnpm": (r"add|install|i", _NODE, _NODE_VERSION),
    "yarn": (r"add", _NODE, _NODE_VERSION),
    "bun": (r"add|install|i", _NODE, _NODE_VERSION),
    "uv": (r"add", _PYTHON, _PYTHON_VERSION),
    "poetry": (r"add", _PYTHON, _PYTHON_VERSION + r"(?:@[\^~]?[\w.*]+)?"),
    "pdm": (r"add", _PYTHON, _PYTHON_VERSION),
    "pipenv": (r"install", _PYTHON, _PYTHON_VERSION),
    "cargo": (r"add", _RUST, r"(?:@[\^~=]?[\w.]+)?"),
    "go": (r"get", _GO, r"(?:/[\w/]+)?(?:@(?:latest|v[\w.+-]+))?"),
}
_OPTIONS = re.compile(
    r"-[DEOPqvu]|--(?:save(?:-dev|-exact|-prod|-optional)?|dev|exact|no-audit|no-fund|quiet|silent|legacy-peer-deps"
    r"|prefer-offline|group=\w+|features=[\w,-]+|no-default-features|optional|frozen|no-sync|lock)"
)
_VALUED = words("--group -G --features -F --optional")


def adds(call: Call) -> Opinion | None:
    """The opinion on adding well-known packages to the project; None for everything else."""
    verbs, known, version = _ADDING.get(call.name, ("", frozenset[str](), ""))
    arguments = list(call.arguments)
    if not verbs or not call.inside or not arguments or not re.fullmatch(verbs, arguments.pop(0)):
        return None
    found = 0
    while arguments:
        argument = arguments.pop(0)
        if argument in _VALUED and call.name in ("cargo", "uv", "poetry", "pdm"):
            if not arguments or not re.fullmatch(r"[\w,-]+", arguments.pop(0)):
                return None
        elif argument.startswith("-"):
            if not _OPTIONS.fullmatch(argument):
                return None
        elif not _is_known(argument, known, version):
            return None
        else:
            found += 1
    return ADDS if found else None


def are_known_to_python(names: Sequence[str]) -> bool:
    """Whether all are well-known packages of Python, with versions or without."""
    return all(_is_known(name, _PYTHON, _PYTHON_VERSION) for name in names)


def _is_known(argument: str, known: frozenset[str], version: str) -> bool:
    match = re.match(r"@?[\w./-]+?(?=(?:@|\[|[=<>~!]|$))", argument)
    if match is None or re.fullmatch(version, argument[match.end() :]) is None:
        return False
    name = match[0]
    return name in known or (known is _PYTHON and name.lower().replace("_", "-") in known)
