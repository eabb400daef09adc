# Stages: `dependencies` (what runs) and `build` (what compiles) know nothing of each other; `runtime`
# takes only finished folders from them, so no compiler, test or package manager reaches the image.

FROM node:22.23.3-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
COPY packages/client/package.json ./packages/client/
# Optional packages are the embedded PostgreSQL: a container is given a DATABASE_URL.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:22.23.3-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY packages/client/package.json ./packages/client/
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY nest-cli.json tsconfig.json tsconfig.build.json ./
COPY migrations ./migrations
COPY src ./src
COPY console ./console
# The console shows the operating guide.
COPY docs/operating.md ./docs/
COPY scripts/ready.mjs scripts/build-console.mjs ./scripts/
COPY packages/client/tsconfig.json packages/client/tsconfig.node.json ./packages/client/
COPY packages/client/src ./packages/client/src
RUN npm run build

FROM node:22.23.3-bookworm-slim AS runtime
# A name for the uid, because os.userInfo() throws for a uid that has none. npm, corepack and yarn go:
# nothing installs packages here, and scanners report their dependencies as ours.
RUN groupadd --gid 10001 sluice \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin sluice \
 && rm -rf /usr/local/lib/node_modules /opt/yarn-* /root/.npm \
 && rm -f /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /usr/local/bin/yarn /usr/local/bin/yarnpkg
ENV NODE_ENV=production \
    HOST=0.0.0.0
WORKDIR /app
# Owned by root: the process can read its own code, never change it. It writes nothing to disk, so the
# root file system can be read-only.
COPY package.json LICENSE ./
COPY packages/client/package.json ./packages/client/
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/packages/client/dist ./packages/client/dist
COPY --from=build /app/dist ./dist
USER 10001:10001
EXPOSE 3000
# Liveness, not readiness: a container is not restarted because its database is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.PORT || 3000) + '/livez').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Exec form: node is the process that gets SIGTERM, and it drains. What waits for a commit outlives a small young generation
# and is copied again and again; with 64 MiB a post costs a sixth less (docs/decisions/0011).
CMD ["node", "--max-semi-space-size=64", "dist/src/main.js"]

# Last, so that a new commit does not rebuild the layers above.
ARG VERSION=0.0.0-local
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Sluice" \
      org.opencontainers.image.description="Inbox, read models and signed webhooks on PostgreSQL" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
