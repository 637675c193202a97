-- The limit's own tables: an operation, its steps, its event and attempts, with their keys and nothing else.
DROP SCHEMA IF EXISTS plain CASCADE;
CREATE SCHEMA plain;
CREATE TABLE plain.event (
    id uuid PRIMARY KEY, event_id text NOT NULL UNIQUE, received_at timestamptz NOT NULL DEFAULT now(), body jsonb NOT NULL);
CREATE TABLE plain.operation (
    id uuid PRIMARY KEY, operation_id text NOT NULL UNIQUE, event_id uuid NOT NULL, state text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(), params jsonb NOT NULL);
CREATE TABLE plain.step (
    id uuid PRIMARY KEY, operation_id uuid NOT NULL, number smallint NOT NULL, state text NOT NULL,
    due_at timestamptz, worker text, reference text, UNIQUE (operation_id, number));
CREATE INDEX step_due ON plain.step (due_at, id) WHERE state = 'ready';
CREATE TABLE plain.attempt (
    id uuid PRIMARY KEY, step_id uuid NOT NULL, opened_at timestamptz NOT NULL DEFAULT now(), ended_at timestamptz,
    outcome text, reference text);
CREATE UNIQUE INDEX one_open_attempt ON plain.attempt (step_id) WHERE outcome IS NULL;
ALTER TABLE plain.step SET (fillfactor = 80);
ALTER TABLE plain.attempt SET (fillfactor = 80);
