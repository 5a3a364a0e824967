WITH
    trails AS (
        SELECT
            user,
            epoch_ms(time) AS ms,
            event,
            CASE WHEN event = 'signup' THEN 1 ELSE 0 END AS anchor
        FROM events
    ),
    placed AS (
        SELECT
            user,
            ms AS ms,
            event::VARCHAR AS event,
            anchor AS anchor,
            row_number() OVER trail AS place
        FROM trails
        WINDOW trail AS (PARTITION BY user ORDER BY ms, event)
    ),
    anchored AS (
        SELECT
            *,
            min(CASE WHEN anchor = 1 THEN place END) OVER (PARTITION BY user) AS first
        FROM placed
    ),
    steps AS (
        SELECT
            user,
            place,
            event,
            CASE WHEN place = first OR max(event) OVER trail != event THEN 1 ELSE 0 END AS changed,
            CASE WHEN place > first AND abs(ms - max(ms) OVER trail) > 1800000 THEN 1 ELSE 0 END AS paused
        FROM anchored
        WHERE place >= first
        WINDOW trail AS (PARTITION BY user ORDER BY place ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING)
    ),
    numbered AS (
        SELECT
            user,
            place,
            event,
            changed,
            sum(changed) OVER so_far AS step,
            sum(paused) OVER so_far AS pauses
        FROM steps
        WINDOW so_far AS (PARTITION BY user ORDER BY place ROWS UNBOUNDED PRECEDING)
    ),
    walked AS (
        SELECT user, list(event ORDER BY step) AS path
        FROM numbered
        WHERE changed = 1
          AND pauses = 0
          AND step <= 5
        GROUP BY user
    ),
    top AS (
        SELECT path, count(*) AS users
        FROM walked
        GROUP BY path
        ORDER BY users DESC, path
        LIMIT 20
    )
SELECT user
FROM walked
WHERE path = ['signup', 'view']
  AND path IN (SELECT path FROM top)
